--[[ slots: how many compiles at a time the live workers of each queue can run; lapsed workers are forgotten.
  KEYS[1] meta           hash  of the farm, under the farm's own tag
  ARGV[1] now_ms         int?  empty in production: the server's clock
  BUILDS workers worker_leases served slots
  RETURNS {queue, slots, queue, slots, ...}
]]
--@include base
--@include workers
forget_lapsed()
return redis.call('HGETALL', P .. 'slots')
