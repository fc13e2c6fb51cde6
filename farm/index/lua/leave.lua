--[[ leave: give up a membership; the last one out ends the job. Without a member: end it if all have lapsed.
  KEYS[1] meta           hash
  ARGV[1] job            str
  ARGV[2] incarnation    int
  ARGV[3] member         str?  empty: nobody leaves, lapsed members are counted out
  ARGV[4] how            str   'k' running compiles finish, 'c' those that nobody else wants are stopped
  ARGV[5] now_ms         int?  empty in production: the server's clock
  BUILDS j:job m:job jobs n:run map:run g:run graves
  RETURNS {'left', members} | {'ended'} | {'unknown'}
]]
--@include base
--@include hold
--@include job
local job, incarnation, member, how = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

if not is_current(job, incarnation) then
  return { 'unknown' }
end
redis.call('ZREM', P .. 'm:' .. job, member)
local members = drop_lapsed_members(job)
if members > 0 then
  local longest = redis.call('ZRANGE', P .. 'm:' .. job, -1, -1, 'WITHSCORES')
  redis.call('ZADD', P .. 'jobs', longest[2], job)
  return { 'left', members }
end
end_job(job, how)
return { 'ended' }
