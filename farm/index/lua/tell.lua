--[[ tell: send notices to the jobs that waited for finished claims, a chunk a call; a failure is their answer from now on.
  KEYS[1] meta           hash
  ARGV[1] limit          int   notices a call
  ARGV[2] now_ms         int?  empty in production: the server's clock
  BUILDS told t:ref:token j:job n:run map:run f:ref c:ref w:ref i:g e:g dropped:g idle:g queue:NAME running tombs
         sources
  RETURNS how many finished claims still have waiters to be told
]]
--@include base
--@include hold
--@include job
--@include interest
--@include queue
--@include resolve
local limit = ARGV[1]

-- A reader that is later than this finds out by asking again.
local STREAM_MAX = 20000

local finished = redis.call('LINDEX', P .. 'told', 0)
if not finished then
  return 0
end
local waiting = P .. 't:' .. finished
local g, key = string.match(finished, '^(%d+):(.*):%d+$')
local ref = ref_of(g, key)
-- The row of a failure ends by itself: a job that asks no more would be interested in nothing. One that has joined
-- another claim of the key meanwhile is answered by that.
local failure = redis.call('EXISTS', P .. 'c:' .. ref) == 0 and redis.call('HGET', P .. 'f:' .. ref, 'error')
for _, run in ipairs(redis.call('SPOP', waiting, limit)) do
  local job, incarnation = string.match(run, '^(.*)@(%d+)$')
  if is_current(job, incarnation) then
    if failure and is_interested(g, key, run) then
      refuse(g, key, run, failure, '0')
    end
    redis.call('XADD', P .. 'n:' .. run, 'MAXLEN', '~', STREAM_MAX, '*', 'k', key)
  end
end
if redis.call('EXISTS', waiting) == 0 then
  redis.call('LPOP', P .. 'told')
end
return redis.call('LLEN', P .. 'told')
