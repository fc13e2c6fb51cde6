--[[ register: a worker says what it offers, for as long as its lease; lapsed workers are forgotten.
  KEYS[1] meta           hash  of the farm, under the farm's own tag
  ARGV[1] worker         str
  ARGV[2] row            bytes slots, queues, host, pid; empty: the worker leaves
  ARGV[3] ttl_ms         int
  ARGV[4...] toolchain   str   name.fingerprint then offer (bytes), two a toolchain
  ARGV[last] now_ms      int?  empty in production: the server's clock
  BUILDS workers worker_leases toolchains first_seen
  RETURNS live workers
]]
--@include base
local worker, row, ttl_ms = ARGV[1], ARGV[2], ARGV[3]

for _, gone in ipairs(redis.call('ZRANGEBYSCORE', P .. 'worker_leases', '-inf', now, 'LIMIT', 0, 100)) do
  redis.call('ZREM', P .. 'worker_leases', gone)
  redis.call('HDEL', P .. 'workers', gone)
end
if row == '' then
  redis.call('ZREM', P .. 'worker_leases', worker)
  redis.call('HDEL', P .. 'workers', worker)
else
  redis.call('ZADD', P .. 'worker_leases', now + tonumber(ttl_ms), worker)
  redis.call('HSET', P .. 'workers', worker, row)
  for at = 4, #ARGV - 2, 2 do
    redis.call('HSETNX', P .. 'first_seen', ARGV[at], text(now))
    redis.call('HSET', P .. 'toolchains', ARGV[at], ARGV[at + 1])
  end
end
return redis.call('ZCARD', P .. 'worker_leases')
