--[[ orphans: objects of the store that are nothing to the index are condemned, in the step that finds it.
  KEYS[1] meta           hash
  ARGV[1...] path        str   then generation (int), key (bytes) and token (int), four an object, at most 250
  ARGV[last] now_ms      int?  empty in production: the server's clock
  BUILDS e:g c:ref tombs deleting
  RETURNS how many were condemned
]]
--@include base
--@include interest

local condemned = 0
for at = 1, #ARGV - 4, 4 do
  local path, g, key, token = ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3]
  local record = redis.call('HGET', P .. 'e:' .. g, key)
  local is_entry = record and token_and_bytes(record) == token
  local is_running = redis.call('HGET', P .. 'c:' .. ref_of(g, key), 'token') == token
  if not is_entry and not is_running and not redis.call('ZSCORE', P .. 'deleting', path) then
    condemned = condemned + redis.call('ZADD', P .. 'tombs', 'NX', now, path)
  end
end
return condemned
