-- resolve: the answers of one job for a batch of keys. Needs base, job, interest, queue.
--
-- The states, one letter a key: h hit, j joined, f failed, r failed and remembered, a absent.
-- The batch is read and written with a few commands of many arguments: what is already there is the
-- common case, and a fresh job that finds everything must cost little more than reading it.

-- To the server, a small hash is a list that it reads to the end for each field it writes; one long value makes it
-- a table for good. Without this, the first batches of a job cost three times as much as the later ones.
local LONG = string.rep('-', 65)

-- Write each key with its value, or all with the same.
local function write(hash, keys, values)
  local fields = { '', LONG }
  for n = 1, #keys do
    fields[2 * n + 1], fields[2 * n + 2] = keys[n], values[n] or values.all
  end
  redis.call('HSET', hash, unpack(fields))
  redis.call('HDEL', hash, '')
end

-- Pin entries for the job: take them out of the idle set, count, write the job's map. Idle are exactly those
-- without interest, so when all were idle, all counts become 1 and need not be read.
local function pin(g, run, keys)
  local counts = { all = 1 }
  if redis.call('ZREM', P .. 'idle:' .. g, unpack(keys)) < #keys then
    counts = redis.call('HMGET', P .. 'i:' .. g, unpack(keys))
    for n = 1, #keys do
      counts[n] = (counts[n] or 0) + 1
    end
  end
  write(P .. 'i:' .. g, keys, counts)
  write(P .. 'map:' .. run, keys, { all = g .. 'i' })
end

local function refuse(g, key, run, failure, remembered)
  local interested = is_interested(g, key, run)
  redis.call('HSET', P .. 'map:' .. run, key, g .. 'f' .. remembered .. failure)
  if interested then
    give_back(g, key, run, false)
  end
  return remembered == '1' and 'r' or 'f', failure
end

-- A key without an entry: a live claim is joined; a failure is told (to those who waited for it always, to
-- others while it is remembered); else absent. What is joined is noted in joined, once.
local function resolve_missing(g, key, run, held, joined)
  local ref = ref_of(g, key)
  local claim = redis.call('HMGET', P .. 'c:' .. ref, 'state', 'priority', 'queue')
  if claim[1] then
    redis.call('SADD', P .. 'w:' .. ref, run)
    redis.call('HDEL', P .. 'c:' .. ref, 'unwanted')
    if add_interest(g, key, run) then
      redis.call('HINCRBY', KEYS[1], 'joins', 1)
    end
    if not joined[ref] then
      joined[ref] = { state = claim[1], priority = claim[2], queue = claim[3] }
      joined[#joined + 1] = ref
    end
    return 'j', ''
  end
  local failed = redis.call('HMGET', P .. 'f:' .. ref, 'error', 'expires_ms')
  if failed[1] and held then
    return refuse(g, key, run, failed[1], '0')
  elseif failed[1] and now < tonumber(failed[2]) then
    return refuse(g, key, run, failed[1], '1')
  end
  return 'a', ''
end

-- What the job's map holds for a key: generation, state and rest. What lies below the floor is given back; no floor
-- is meant for what is private.
local function mapped(run, key, value, floor)
  if not value then
    return nil
  end
  local g, state, rest = string.match(value, '^(%d+)(.)(.*)$')
  if g == PRIVATE or tonumber(g) >= tonumber(floor) then
    return g, state, rest
  end
  if redis.call('HDEL', P .. 'map:' .. run, key) == 1 and state == 'i' then
    give_back(g, key, run, false)
  end
end

-- The job's class is read only when something is joined.
local function lift_joined(job, joined)
  if #joined > 0 then
    local class = redis.call('HGET', P .. 'j:' .. job, 'priority')
    for _, ref in ipairs(joined) do
      lift(ref, joined[ref], job, class)
    end
  end
end

-- Returns states (letters), payloads (record or failure) and generations, each one a key. In scope 'private', keys
-- that the job has not asked for yet are its own.
local function resolve(job, run, floor, scope, keys)
  local g_now = reach(floor)
  if scope == 'private' then
    g_now = PRIVATE
  end
  local states, payloads, generations, held, joined = {}, {}, {}, {}, {}
  local order, groups = {}, {}
  for n, value in ipairs(redis.call('HMGET', P .. 'map:' .. run, unpack(keys))) do
    local g, state, rest = mapped(run, keys[n], value, floor)
    if state == 'f' then
      states[n], payloads[n] = string.sub(rest, 1, 1) == '1' and 'r' or 'f', string.sub(rest, 2)
    else
      held[n] = g ~= nil
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
        states[n], payloads[n] = resolve_missing(g, keys[n], run, held[n], joined)
      end
    end
    if #fresh > 0 then
      pin(g, run, fresh)
      redis.call('HINCRBY', KEYS[1], 'hits', #fresh)
    end
  end
  lift_joined(job, joined)
  return states, payloads, generations
end

-- The reply of acquire and claim; one generation stands for all when all are the same.
local function reply_of(states, payloads, generations)
  local g, same = generations[1], true
  for n = 2, #generations do
    same = same and generations[n] == g
  end
  return { 'ok', table.concat(states), payloads, same and g or table.concat(generations, ' ') }
end
