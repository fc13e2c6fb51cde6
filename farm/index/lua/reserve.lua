--[[ reserve: fresh tokens for bundles that an import is about to put; for so long the search for orphans leaves them.
  KEYS[1] meta           hash
  ARGV[1] generation     int   into which they will be adopted
  ARGV[2] lease_ms       int   afterwards adopt refuses them, and the search for orphans collects what lies there
  ARGV[3...] key         bytes at most 250
  ARGV[last] now_ms      int?  empty in production: the server's clock
  BUILDS coming
  RETURNS a token for each key; none when the namespace is not open
]]
--@include base
--@include interest
local g, lease_ms = ARGV[1], ARGV[2]

local tokens = {}
if not current_generation() then
  return tokens
end
redis.call('ZREMRANGEBYSCORE', P .. 'coming', '-inf', now)
for at = 3, #ARGV - 1 do
  local token = next_token()
  redis.call('ZADD', P .. 'coming', now + tonumber(lease_ms), path_of(g, ARGV[at], token))
  tokens[#tokens + 1] = token
end
return tokens
