--[[ evict: condemn idle entries, least recently used first, until the namespace is at or below a size.
  KEYS[1] meta           hash
  ARGV[1] limit_bytes    int   a pass begins at this size, and goes on to the target over as many calls as that
                               takes, whoever leads; 0: no pass, the target alone counts
  ARGV[2] target_bytes   int   stated: never goes below it by more than the last entry, so twice is as once
  ARGV[3] min_idle_ms    int   only entries that nobody has used for so long
  ARGV[4] limit          int   entries a call
  ARGV[5] now_ms         int?  empty in production: the server's clock
  BUILDS e:g idle:g tombs
  RETURNS {entries evicted, their stored bytes, bytes left}
]]
--@include base
--@include interest
--@include hold
local limit_bytes, target_bytes, min_idle_ms, limit = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

local target = tonumber(target_bytes)
local bytes = tonumber(redis.call('HGET', KEYS[1], 'bytes') or '0')
local since = tonumber(redis.call('HGET', KEYS[1], 'ageing_since') or '0')
local oldest = now - min_idle_ms

local function is_due()
  if limit_bytes == '0' or redis.call('HEXISTS', KEYS[1], 'ageing_pass') == 1 then
    return true
  elseif bytes < tonumber(limit_bytes) then
    return false
  end
  redis.call('HSET', KEYS[1], 'ageing_pass', text(now))
  return true
end

local g = current_generation()
-- Ageing that was just switched on finds no times of use: everyone's idleness starts then.
if not g or entries_are_held() or since > oldest or not is_due() then
  return { 0, 0, bytes }
end
local before, gone, records = bytes, {}, {}
local idle = redis.call('ZRANGEBYSCORE', P .. 'idle:' .. g, '-inf', oldest, 'LIMIT', 0, limit)
if #idle > 0 then
  records = redis.call('HMGET', P .. 'e:' .. g, unpack(idle))
end
for n, key in ipairs(idle) do
  if bytes > target then
    local _, stored = token_and_bytes(records[n])
    bytes = bytes - tonumber(stored)
    gone[n] = key
  end
end
condemn_all(g, gone, records)
if #gone > 0 then
  redis.call('ZREM', P .. 'idle:' .. g, unpack(gone))
  redis.call('HINCRBY', KEYS[1], 'evictions', #gone)
end
if bytes <= target or #idle < tonumber(limit) then
  redis.call('HDEL', KEYS[1], 'ageing_pass')
end
return { #gone, before - bytes, bytes }
