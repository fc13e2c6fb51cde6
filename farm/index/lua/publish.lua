--[[ publish: make a finished compile visible to everybody, if the caller still holds the claim.
  KEYS[1] meta           hash
  ARGV[1] generation     int   the claim's own: a compile claimed under an old one publishes into it
  ARGV[2] key            bytes
  ARGV[3] token          int   fencing token of the take
  ARGV[4] record         bytes
  ARGV[5] path           str   where the bundle lies in the store
  ARGV[6] near_row       bytes for explain: of the type and tensors
  ARGV[7] now_ms         int?  empty in production: the server's clock
  BUILDS c:ref w:ref t:ref:token told running queue:NAME e:g dropped:g i:g idle:g f:ref tombs generations near:g
         sources
  RETURNS 'published' | 'lost' (the path is condemned unless it is the entry's)
]]
--@include base
--@include interest
local g, key, token, record, path, near_row = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]

local ref = ref_of(g, key)
local entry = redis.call('HGET', P .. 'e:' .. g, key)
local claim = redis.call('HMGET', P .. 'c:' .. ref, 'token', 'queue')
if claim[1] ~= token then
  if entry and token_and_bytes(entry) == token then
    return 'published'
  end
  redis.call('ZADD', P .. 'tombs', 'NX', now, path)
  return 'lost'
end
-- Called when the limit is crossed, not for each entry above it.
local function call_coordinator_at_limit()
  local row = redis.call('HMGET', KEYS[1], 'bytes', 'limit_bytes', 'ageing')
  local bytes, limit_bytes = tonumber(row[1]), tonumber(row[2])
  local _, stored = token_and_bytes(record)
  if row[3] == '1' and bytes >= limit_bytes and bytes - stored < limit_bytes then
    redis.call('PUBLISH', 'opfarm:wake', KEYS[1])
  end
end

enter(g, key, record, near_row)
if g ~= PRIVATE then
  call_coordinator_at_limit()
end
redis.call('HINCRBY', KEYS[1], 'compiles', 1)
finish_claim(ref, claim[2], token)
if redis.call('HEXISTS', P .. 'i:' .. g, key) == 0 then
  let_go(g, key, record)
end
return 'published'
