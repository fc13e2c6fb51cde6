--[[ tell: send notices to the jobs that waited for finished claims, a chunk a call.
  KEYS[1] meta           hash
  ARGV[1] limit          int   notices a call
  ARGV[2] now_ms         int?  empty in production: the server's clock
  BUILDS told t:ref:token j:job n:run
  RETURNS how many finished claims still have waiters to be told
]]
--@include base
--@include hold
--@include job
local limit = ARGV[1]

-- A reader that is later than this finds out by asking again.
local STREAM_MAX = 20000

local finished = redis.call('LINDEX', P .. 'told', 0)
if not finished then
  return 0
end
local waiting = P .. 't:' .. finished
local key = string.match(finished, '^%d+:(.*):%d+$')
for _, run in ipairs(redis.call('SPOP', waiting, limit)) do
  local job, incarnation = string.match(run, '^(.*)@(%d+)$')
  if is_current(job, incarnation) then
    redis.call('XADD', P .. 'n:' .. run, 'MAXLEN', '~', STREAM_MAX, '*', 'k', key)
  end
end
if redis.call('EXISTS', waiting) == 0 then
  redis.call('LPOP', P .. 'told')
end
return redis.call('LLEN', P .. 'told')
