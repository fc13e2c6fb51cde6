--[[ drain: condemn idle entries of retired generations, oldest generation first, a chunk a call.
  KEYS[1] meta           hash
  ARGV[1] limit          int   entries a call
  ARGV[2] now_ms         int?  empty in production: the server's clock
  BUILDS generations e:g idle:g tombs near:g
  RETURNS entries condemned; 0 when none is left, a hundred generations on end had none, or it is not open
]]
--@include base
--@include interest
--@include hold
local limit = ARGV[1]

-- Generations that only pinned entries keep are passed over. When there are more of them than one call looks at,
-- the next call goes on after those.
local LOOK = 100

local function drain(g, room)
  local keys = redis.call('ZRANGE', P .. 'idle:' .. g, 0, room - 1)
  if #keys > 0 then
    condemn_all(g, keys, redis.call('HMGET', P .. 'e:' .. g, unpack(keys)))
    redis.call('ZREM', P .. 'idle:' .. g, unpack(keys))
  end
  if redis.call('EXISTS', P .. 'e:' .. g) == 0 then
    redis.call('ZREM', P .. 'generations', g)
    redis.call('UNLINK', P .. 'near:' .. g)
  end
  return #keys
end

if entries_are_held() or not current_generation() then
  return 0
end
local done, after = 0, redis.call('HGET', KEYS[1], 'drained_upto') or '0'
local retired = redis.call('ZRANGEBYSCORE', P .. 'generations', '(' .. after, '(' .. current_generation(),
  'LIMIT', 0, LOOK)
for _, g in ipairs(retired) do
  if done < tonumber(limit) then
    done = done + drain(g, limit - done)
  end
end
if done < tonumber(limit) and #retired == LOOK then
  redis.call('HSET', KEYS[1], 'drained_upto', retired[LOOK])
elseif done < tonumber(limit) then
  redis.call('HDEL', KEYS[1], 'drained_upto')
end
return done
