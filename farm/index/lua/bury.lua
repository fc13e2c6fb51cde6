--[[ bury: give back the interest of ended jobs, a chunk a call.
  KEYS[1] meta           hash
  ARGV[1] limit          int   keys a call
  ARGV[2] now_ms         int?  empty in production: the server's clock
  BUILDS graves g:run i:g e:g dropped:g idle:g c:ref w:ref queue:NAME running tombs sources
  RETURNS how many graveyards are left
]]
--@include base
--@include interest
local limit = ARGV[1]

local head = redis.call('LINDEX', P .. 'graves', 0)
if not head then
  return 0
end
local cancelled, run = string.sub(head, 1, 1) == 'c', string.sub(head, 2)
local grave = P .. 'g:' .. run
local some = redis.call('HRANDFIELD', grave, limit, 'WITHVALUES')
for at = 1, #some, 2 do
  local key = some[at]
  local g, state = string.match(some[at + 1], '^(%d+)(.)')
  if state == 'i' then
    give_back(g, key, run, cancelled)
  end
  redis.call('HDEL', grave, key)
end
if redis.call('EXISTS', grave) == 0 then
  redis.call('LPOP', P .. 'graves')
end
return redis.call('LLEN', P .. 'graves')
