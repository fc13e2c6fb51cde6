-- resolve: the answers of one job for a batch of keys. Needs base, job, interest.
--
-- The states, one letter a key: h hit, j joined, f failed, r failed and remembered, a absent.
-- The batch is read and written with a few commands of many arguments: what is already there is the
-- common case, and a fresh job that finds everything must cost little more than reading it.

local function pairs_of(keys, value)
  local out = {}
  for n, key in ipairs(keys) do
    out[2 * n - 1], out[2 * n] = key, value(n)
  end
  return unpack(out)
end

-- Pin entries for the job: count, take out of the idle set, write the job's map.
local function pin(g, run, keys)
  local counts = redis.call('HMGET', P .. 'i:' .. g, unpack(keys))
  redis.call('HSET', P .. 'i:' .. g, pairs_of(keys, function(n) return (counts[n] or 0) + 1 end))
  redis.call('ZREM', P .. 'idle:' .. g, unpack(keys))
  redis.call('HSET', P .. 'map:' .. run, pairs_of(keys, function() return g .. 'i' end))
end

local function refuse(g, key, run, held, failure, remembered)
  redis.call('HSET', P .. 'map:' .. run, key, g .. 'f' .. remembered .. failure)
  if held then
    give_back(g, key, run, false)
  end
  return remembered == '1' and 'r' or 'f', failure
end

-- A key without an entry: a live claim is joined; a failure is told (to those who waited for it always, to
-- others while it is remembered); else absent.
local function resolve_missing(g, key, run, held)
  local ref = ref_of(g, key)
  if redis.call('EXISTS', P .. 'c:' .. ref) == 1 then
    redis.call('SADD', P .. 'w:' .. ref, run)
    redis.call('HDEL', P .. 'c:' .. ref, 'unwanted')
    if not held then
      add_interest(g, key)
      redis.call('HSET', P .. 'map:' .. run, key, g .. 'i')
      redis.call('HINCRBY', KEYS[1], 'joins', 1)
    end
    return 'j', ''
  end
  local failed = redis.call('HMGET', P .. 'f:' .. ref, 'error', 'expires_ms')
  if failed[1] and held then
    return refuse(g, key, run, true, failed[1], '0')
  elseif failed[1] and now < tonumber(failed[2]) then
    return refuse(g, key, run, false, failed[1], '1')
  end
  return 'a', ''
end

-- What the map holds for a key: the generation, and the answer when it is final.
local function mapped(value, floor)
  if not value then
    return nil
  end
  local g, state, rest = string.match(value, '^(%d+)(.)(.*)$')
  if tonumber(g) < tonumber(floor) then
    return nil, g, state
  end
  return g, nil, state, rest
end

-- Returns states (a string of letters), payloads (record or failure), generations, each one a key.
local function resolve(run, floor, keys)
  local g_now = current_generation()
  if tonumber(floor) > tonumber(g_now) then
    redis.call('HSET', KEYS[1], 'generation', floor)
    g_now = floor
  end
  local states, payloads, generations, held = {}, {}, {}, {}
  local order, groups = {}, {}
  for n, value in ipairs(redis.call('HMGET', P .. 'map:' .. run, unpack(keys))) do
    local g, below, state, rest = mapped(value, floor)
    if below and state == 'i' then
      give_back(below, keys[n], run, false)
    end
    if g and state == 'f' then
      states[n], payloads[n] = string.sub(rest, 1, 1) == '1' and 'r' or 'f', string.sub(rest, 2)
    else
      held[n] = g and true or false
      g = g or g_now
      if not groups[g] then
        groups[g] = {}
        order[#order + 1] = g
      end
      table.insert(groups[g], n)
    end
    generations[n] = g
  end
  for _, g in ipairs(order) do
    local wanted, fresh = {}, {}
    for at, n in ipairs(groups[g]) do
      wanted[at] = keys[n]
    end
    local records = redis.call('HMGET', P .. 'e:' .. g, unpack(wanted))
    for at, n in ipairs(groups[g]) do
      if records[at] then
        states[n], payloads[n] = 'h', records[at]
        if not held[n] then
          fresh[#fresh + 1] = keys[n]
        end
      else
        states[n], payloads[n] = resolve_missing(g, keys[n], run, held[n])
      end
    end
    if #fresh > 0 then
      pin(g, run, fresh)
      redis.call('HINCRBY', KEYS[1], 'hits', #fresh)
    end
  end
  return states, payloads, generations, held
end
