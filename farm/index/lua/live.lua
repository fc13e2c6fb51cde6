--[[ live: the workers whose lease is not over.
  KEYS[1] meta           hash  of the farm, under the farm's own tag
  ARGV[1] now_ms         int?  empty in production: the server's clock
  BUILDS workers worker_leases
  RETURNS {row, ...}
]]
--@include base

local live = redis.call('ZRANGEBYSCORE', P .. 'worker_leases', '(' .. text(now), '+inf')
if #live == 0 then
  return {}
end
return redis.call('HMGET', P .. 'workers', unpack(live))
