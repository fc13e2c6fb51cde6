--[[ purge_queue: drop requests of jobs that have ended, and count those that wait for a purge.
  KEYS[1] meta           hash
  ARGV[1] limit          int   requests looked at
  ARGV[2] now_ms         int?  empty in production: the server's clock
  BUILDS purges asked:request j:job
  RETURNS {requests that wait, requests of them that an earlier purge answers}
]]
--@include base
--@include hold
--@include job
local limit = ARGV[1]

local upto = redis.call('HGET', KEYS[1], 'purged_upto') or '0-0'
for _, row in ipairs(redis.call('XRANGE', P .. 'purges', '-', '+', 'COUNT', limit)) do
  local request, job, incarnation = row[2][2], row[2][4], row[2][6]
  if job ~= '' and not is_current(job, incarnation) then
    redis.call('XDEL', P .. 'purges', row[1])
    redis.call('DEL', P .. 'asked:' .. request)
  end
end
local waiting = redis.call('XLEN', P .. 'purges')
return { waiting, #redis.call('XRANGE', P .. 'purges', '-', upto, 'COUNT', limit) }
