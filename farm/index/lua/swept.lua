--[[ swept: these objects are gone from the store.
  KEYS[1] meta           hash
  ARGV[1...] path        str   at most 500
  ARGV[last] now_ms      int?  empty in production: the server's clock
  BUILDS deleting
  RETURNS how many were to be deleted
]]
--@include base

return redis.call('ZREM', P .. 'deleting', unpack(ARGV, 1, #ARGV - 1))
