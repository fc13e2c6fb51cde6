--[[ orphans: objects of the store that are nothing to the index are condemned, in the step that finds it.
  KEYS[1] meta           hash
  ARGV[1...] path        str   then generation (int), key (bytes) and token (int), four an object, at most 250
  ARGV[last] now_ms      int?  empty in production: the server's clock
  BUILDS e:g c:ref tombs deleting coming
  RETURNS how many were condemned
]]
--@include base
--@include interest
--@include hold

local condemned = 0
if entries_are_held() then
  return condemned
end
for at = 1, #ARGV - 4, 4 do
  local path, g, key, token = ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3]
  local record = redis.call('HGET', P .. 'e:' .. g, key)
  -- What a killed writer left of an entry's bundle has another path than the bundle.
  local is_entry = record and token_and_bytes(record) == token and path == path_of(g, key, token)
  local is_running = redis.call('HGET', P .. 'c:' .. ref_of(g, key), 'token') == token
  local is_somebodys = is_entry or is_running or is_coming(path_of(g, key, token))
  if not is_somebodys and not redis.call('ZSCORE', P .. 'deleting', path) then
    condemned = condemned + redis.call('ZADD', P .. 'tombs', 'NX', now, path)
  end
end
return condemned
