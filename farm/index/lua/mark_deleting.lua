--[[ mark_deleting: tombstones whose grace is over can not be taken back any more; their objects are to be deleted.
  KEYS[1] meta           hash
  ARGV[1] grace_ms       int
  ARGV[2] limit          int   paths a call
  ARGV[3] now_ms         int?  empty in production: the server's clock
  BUILDS tombs deleting
  RETURNS {path, ...}: marked now or by a leader that did not come to the end
]]
--@include base
--@include hold
local grace_ms, limit = ARGV[1], ARGV[2]

if entries_are_held() then
  return {}
end
for _, path in ipairs(redis.call('ZRANGEBYSCORE', P .. 'tombs', '-inf', now - grace_ms, 'LIMIT', 0, limit)) do
  redis.call('ZREM', P .. 'tombs', path)
  redis.call('ZADD', P .. 'deleting', now, path)
end
return redis.call('ZRANGE', P .. 'deleting', 0, limit - 1)
