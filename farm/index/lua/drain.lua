--[[ drain: condemn idle entries of retired generations, oldest generation first, a chunk a call.
  KEYS[1] meta           hash
  ARGV[1] limit          int   entries a call
  ARGV[2] now_ms         int?  empty in production: the server's clock
  BUILDS generations e:g idle:g tombs
  RETURNS entries condemned
]]
--@include base
--@include interest
--@include hold
local limit = ARGV[1]

-- Generations that only pinned entries keep are passed over; there are not many.
local LOOK = 100

local function drain(g, room)
  local keys = redis.call('ZRANGE', P .. 'idle:' .. g, 0, room - 1)
  for _, key in ipairs(keys) do
    local record = redis.call('HGET', P .. 'e:' .. g, key)
    if record then
      condemn(g, key, record, path_of(g, key, (token_and_bytes(record))))
    end
  end
  if #keys > 0 then
    redis.call('ZREM', P .. 'idle:' .. g, unpack(keys))
  end
  if redis.call('EXISTS', P .. 'e:' .. g) == 0 then
    redis.call('ZREM', P .. 'generations', g)
  end
  return #keys
end

if entries_are_held() then
  return 0
end
local done = 0
for _, g in ipairs(redis.call('ZRANGEBYSCORE', P .. 'generations', '-inf', '(' .. current_generation(), 'LIMIT', 0, LOOK)) do
  if done < tonumber(limit) then
    done = done + drain(g, limit - done)
  end
end
return done
