--[[ register: a worker says what it offers, for as long as its lease; lapsed workers are forgotten.
  KEYS[1] meta           hash  of the farm, under the farm's own tag
  ARGV[1] worker         str
  ARGV[2] row            bytes slots, queues, host, pid; empty: the worker leaves
  ARGV[3] ttl_ms         int
  ARGV[4] served         str   how many compiles at a time, and from which queues, with blanks between
  ARGV[5...] toolchain   str   name.fingerprint then offer (bytes), two a toolchain
  ARGV[last] now_ms      int?  empty in production: the server's clock
  BUILDS workers worker_leases served slots toolchains first_seen
  RETURNS live workers
]]
--@include base
--@include workers
local worker, row, ttl_ms, served = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

forget_lapsed()
if row == '' then
  forget(worker)
else
  redis.call('ZADD', P .. 'worker_leases', now + tonumber(ttl_ms), worker)
  redis.call('HSET', P .. 'workers', worker, row)
  serve(worker, served)
  for at = 5, #ARGV - 2, 2 do
    redis.call('HSETNX', P .. 'first_seen', ARGV[at], text(now))
    redis.call('HSET', P .. 'toolchains', ARGV[at], ARGV[at + 1])
  end
end
return redis.call('ZCARD', P .. 'worker_leases')
