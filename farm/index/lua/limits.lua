--[[ limits: the limits in force, as the coordinator has read them; switching ageing on starts everyone's idle time.
  KEYS[1] meta           hash
  ARGV[1] limit_bytes    int
  ARGV[2] keep_ratio     int   per cent
  ARGV[3] origin         str   op_cache.ini, environment or default
  ARGV[4] ageing         int   1 or 0
  ARGV[5] now_ms         int?  empty in production: the server's clock
  RETURNS 'ok'
]]
--@include base
local limit_bytes, keep_ratio, origin, ageing = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

if ageing == '1' and redis.call('HGET', KEYS[1], 'ageing') == '0' then
  redis.call('HSET', KEYS[1], 'ageing_since', text(now))
end
-- A pass under other limits has another target.
if ageing == '0' or redis.call('HGET', KEYS[1], 'limit_bytes') ~= limit_bytes then
  redis.call('HDEL', KEYS[1], 'ageing_pass')
end
redis.call('HSET', KEYS[1], 'limit_bytes', limit_bytes, 'keep_ratio', keep_ratio, 'limit_origin', origin,
  'ageing', ageing)
return 'ok'
