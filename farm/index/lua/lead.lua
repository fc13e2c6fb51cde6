--[[ lead: become the leader, or stay it; one at a time, each with a term of its own.
  KEYS[1] meta           hash  of the farm, under the farm's own tag
  ARGV[1] candidate      str
  ARGV[2] lease_ms       int   0: step down
  ARGV[3] now_ms         int?  empty in production: the server's clock
  BUILDS leader
  RETURNS {leader, its lease deadline (ms), term}
]]
--@include base
local candidate, lease_ms = ARGV[1], ARGV[2]

local row = redis.call('HMGET', P .. 'leader', 'name', 'deadline_ms', 'term')
local term = tonumber(row[3] or '0')
if row[1] ~= candidate and now < tonumber(row[2] or '0') then
  return { row[1], row[2], row[3] }
elseif row[1] ~= candidate then
  term = term + 1
end
local deadline = text(now + tonumber(lease_ms))
redis.call('HSET', P .. 'leader', 'name', candidate, 'deadline_ms', deadline, 'term', text(term))
return { candidate, deadline, text(term) }
