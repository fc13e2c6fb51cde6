-- interest: the counts that pin entries, the idle set, tombstones and waiters. Needs base.

-- Private entries, which one job has for itself, lie in a generation that is never the current one: so they go with
-- the last interest in them, no purge asks after them, and no other job comes by their keys.
local PRIVATE = '0'

local function current_generation()
  return redis.call('HGET', KEYS[1], 'generation')
end

-- A failover may have lost a raise: who was promised g, or holds something of it, brings it back.
local function reach(g)
  local current = current_generation()
  if tonumber(g) <= tonumber(current) then
    return current
  end
  redis.call('HSET', KEYS[1], 'generation', g)
  return g
end

-- The two numbers at the start of a record, as text.
local function token_and_bytes(record)
  local token, bytes = struct.unpack('>I8I4', record)
  return text(token), text(bytes)
end

-- Private entries are counted apart: they never lead to ageing.
local function count_bytes(g, bytes)
  redis.call('HINCRBY', KEYS[1], g == PRIVATE and 'private_bytes' or 'bytes', bytes)
end

local function condemn(g, key, record, path)
  local _, bytes = token_and_bytes(record)
  redis.call('HDEL', P .. 'e:' .. g, key)
  count_bytes(g, '-' .. bytes)
  redis.call('ZADD', P .. 'tombs', now, path)
end

-- Each character's hex digits, made when they are first needed.
local HEX = setmetatable({}, { __index = function(digits, c)
  digits[c] = string.format('%02x', string.byte(c))
  return digits[c]
end })

local function path_of(g, key, token)
  local namespace = string.match(P, '{(.*)}')
  return namespace .. '/' .. g .. '/' .. string.gsub(key, '.', HEX) .. '-' .. token
end

-- A batch of idle entries (at most 500), with few commands of many arguments: others wait while a script runs. Their
-- places in idle are the caller's.
local function condemn_all(g, keys, records)
  local total, tombs = 0, {}
  for n, key in ipairs(keys) do
    local token, bytes = token_and_bytes(records[n])
    total = total + tonumber(bytes)
    tombs[#tombs + 1], tombs[#tombs + 2] = now, path_of(g, key, token)
  end
  if #tombs > 0 then
    redis.call('HDEL', P .. 'e:' .. g, unpack(keys))
    count_bytes(g, text(-total))
    redis.call('ZADD', P .. 'tombs', unpack(tombs))
  end
end

-- A bundle that an import is putting there is nobody's yet, and no orphan.
local function is_coming(path)
  return tonumber(redis.call('ZSCORE', P .. 'coming', path) or '0') > now
end

-- With ageing off no times of use are written.
local use_ms
local function time_of_use()
  use_ms = use_ms or (redis.call('HGET', KEYS[1], 'ageing') == '0' and 0 or now)
  return use_ms
end

-- An entry without interest: idle in the current generation, condemned in a retired one, or when it was private.
local function let_go(g, key, record)
  if g == current_generation() then
    redis.call('ZADD', P .. 'idle:' .. g, time_of_use(), key)
  else
    condemn(g, key, record, path_of(g, key, (token_and_bytes(record))))
  end
end

local function is_interested(g, key, run)
  return redis.call('HGET', P .. 'map:' .. run, key) == g .. 'i'
end

-- One job's interest in one key, counted once; true when it is new.
local function add_interest(g, key, run)
  if is_interested(g, key, run) then
    return false
  end
  redis.call('HSET', P .. 'map:' .. run, key, g .. 'i')
  redis.call('HINCRBY', P .. 'i:' .. g, key, 1)
  return true
end

-- Rows of near a generation; of more, one gives way, so that memory stays bounded whatever types there are.
local NEAR_MAX = 20000

-- Explain compares a key that is not there with the latest of its type and tensors. The row may outlive the entry.
local function remember_near(g, row, key)
  local near = P .. 'near:' .. g
  redis.call('HSET', near, row, key)
  if redis.call('HLEN', near) > NEAR_MAX then
    redis.call('HDEL', near, redis.call('HRANDFIELD', near))
  end
end

-- A bundle becomes the entry of its key; how the key failed before is forgotten.
local function enter(g, key, record, near_row)
  local _, bytes = token_and_bytes(record)
  redis.call('HSET', P .. 'e:' .. g, key, record)
  count_bytes(g, bytes)
  redis.call('ZADD', P .. 'generations', g, g)
  redis.call('DEL', P .. 'f:' .. ref_of(g, key))
  redis.call('HDEL', P .. 'dropped:' .. g, key)
  if g ~= PRIVATE then
    remember_near(g, near_row, key)
  end
end

-- A claim that ends lets go of the sources it was made with.
local function remove_claim(ref, queue)
  local epoch = redis.call('HGET', P .. 'c:' .. ref, 'sources')
  if epoch and redis.call('HINCRBY', P .. 'sources', epoch, -1) < 1 then
    redis.call('HDEL', P .. 'sources', epoch)
  end
  redis.call('ZREM', P .. 'queue:' .. queue, ref)
  redis.call('ZREM', P .. 'running', ref)
  redis.call('UNLINK', P .. 'c:' .. ref)
end

-- The count falls by one; the caller has changed the job's map. At 0 the entry becomes idle, a queued claim goes; a
-- running one finishes, or is marked unwanted when its job was cancelled.
local function give_back(g, key, run, cancelled)
  local left = redis.call('HINCRBY', P .. 'i:' .. g, key, -1)
  local ref = ref_of(g, key)
  redis.call('SREM', P .. 'w:' .. ref, run)
  if left > 0 then
    return
  end
  redis.call('HDEL', P .. 'i:' .. g, key)
  redis.call('HDEL', P .. 'dropped:' .. g, key)
  local record = redis.call('HGET', P .. 'e:' .. g, key)
  if record then
    let_go(g, key, record)
  end
  local claim = redis.call('HMGET', P .. 'c:' .. ref, 'state', 'queue')
  if claim[1] == 'queued' then
    remove_claim(ref, claim[2])
  elseif claim[1] and cancelled then
    redis.call('HSET', P .. 'c:' .. ref, 'unwanted', '1')
  end
end

-- A finished claim: its waiters stand in line to be told (by tell, in chunks).
local function finish_claim(ref, queue, token)
  if redis.call('EXISTS', P .. 'w:' .. ref) == 1 then
    local waiting = ref .. ':' .. token
    redis.call('RENAME', P .. 'w:' .. ref, P .. 't:' .. waiting)
    redis.call('RPUSH', P .. 'told', waiting)
  end
  remove_claim(ref, queue)
end
