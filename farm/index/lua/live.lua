--[[ live: the workers whose lease is not over.
  KEYS[1] meta           hash  of the farm, under the farm's own tag
  ARGV[1] now_ms         int?  empty in production: the server's clock
  BUILDS workers worker_leases
  RETURNS {row, ...}
]]
--@include base

-- Lua hands over some thousands of values at once, not more.
local CHUNK = 500

local live = redis.call('ZRANGEBYSCORE', P .. 'worker_leases', '(' .. text(now), '+inf')
local rows = {}
for at = 1, #live, CHUNK do
  for _, row in ipairs(redis.call('HMGET', P .. 'workers', unpack(live, at, math.min(at + CHUNK - 1, #live)))) do
    rows[#rows + 1] = row
  end
end
return rows
