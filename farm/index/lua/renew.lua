--[[ renew: extend the leases of running claims; says which are lost and which nobody wants any more.
  KEYS[1] meta           hash
  ARGV[1] lease_ms       int
  ARGV[2...] ref         str   then token (int), two a claim, at most 500
  ARGV[last] now_ms      int?  empty in production: the server's clock
  BUILDS c:ref running
  RETURNS one letter a claim: k kept, l lost, u unwanted
]]
--@include base
local lease_ms = ARGV[1]

local out = {}
for at = 2, #ARGV - 2, 2 do
  local ref, token = ARGV[at], ARGV[at + 1]
  local row = redis.call('HMGET', P .. 'c:' .. ref, 'token', 'unwanted')
  if row[1] ~= token then
    out[#out + 1] = 'l'
  elseif row[2] then
    out[#out + 1] = 'u'
  else
    redis.call('ZADD', P .. 'running', now + tonumber(lease_ms), ref)
    out[#out + 1] = 'k'
  end
end
return table.concat(out)
