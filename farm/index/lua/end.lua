--[[ end: end a job at once, whoever its members are; those that still live are told so when they announce.
  KEYS[1] meta           hash
  ARGV[1] job            str
  ARGV[2] incarnation    int
  ARGV[3] how            str   'k' running compiles finish, 'c' those that nobody else wants are stopped
  ARGV[4] by             str   who ends it, for its members
  ARGV[5] keep_ms        int   how long a member may be away and still be told: one job lease, or its own if longer
  ARGV[6] now_ms         int?  empty in production: the server's clock
  BUILDS j:job m:job jobs n:run map:run g:run graves x:run
  RETURNS 'ended' | 'unknown' (this incarnation lives no more, and nobody has ended it so)
]]
--@include base
--@include hold
--@include job
local job, incarnation, how, by, keep_ms = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]

local marker = P .. 'x:' .. job .. '@' .. incarnation
if not is_current(job, incarnation) then
  return redis.call('EXISTS', marker) == 1 and 'ended' or 'unknown'
end
local lease_left = tonumber(redis.call('ZSCORE', P .. 'jobs', job)) - now
redis.call('SET', marker, how .. by, 'PX', text(math.max(tonumber(keep_ms), lease_left)))
end_job(job, how)
return 'ended'
