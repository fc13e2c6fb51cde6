--[[ drop: a reader found the bundle bad or gone; forget the entry, if it is still the one that was read.
  KEYS[1] meta           hash
  ARGV[1] generation     int
  ARGV[2] key            bytes
  ARGV[3] token          int   of the record that the reader was given
  ARGV[4] path           str
  ARGV[5] now_ms         int?  empty in production: the server's clock
  BUILDS e:g dropped:g i:g idle:g tombs
  RETURNS 'dropped' | 'kept' (another bundle is current, or none); interest stays, so the next ask claims it
]]
--@include base
--@include interest
local g, key, token, path = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

local record = redis.call('HGET', P .. 'e:' .. g, key)
if not record or token_and_bytes(record) ~= token then
  return 'kept'
end
condemn(g, key, record, path)
redis.call('ZREM', P .. 'idle:' .. g, key)
if redis.call('HEXISTS', P .. 'i:' .. g, key) == 1 then
  redis.call('HSET', P .. 'dropped:' .. g, key, token)
end
return 'dropped'
