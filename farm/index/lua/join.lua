--[[ join: become a member of a job, or renew a membership; an id whose job ended starts a new incarnation.
  KEYS[1] meta           hash
  ARGV[1] job            str
  ARGV[2] member         str
  ARGV[3] mode           str   belongs to the job
  ARGV[4] priority       int   class of the fair queue: 0 urgent, 1 normal, 2 bulk
  ARGV[5] owner          bytes labels, not read here
  ARGV[6] lease_ms       int
  ARGV[7] now_ms         int?  empty in production: the server's clock
  BUILDS j:job m:job jobs n:run map:run g:run graves
  RETURNS {'joined', incarnation, generation, floor, members} | {'not_open'} | {'other_mode', mode}
]]
--@include base
--@include hold
--@include job
local job, member, mode, priority = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local owner, lease_ms = ARGV[5], ARGV[6]

local generation = redis.call('HGET', KEYS[1], 'generation')
if not generation then
  return { 'not_open' }
end
if redis.call('EXISTS', P .. 'j:' .. job) == 1 and drop_lapsed_members(job) == 0 then
  end_job(job, 'k')
end
if redis.call('EXISTS', P .. 'j:' .. job) == 0 then
  start_job(job, next_token(), mode, priority, owner, '0')
end
local row = redis.call('HMGET', P .. 'j:' .. job, 'incarnation', 'mode', 'floor')
if row[2] ~= mode then
  return { 'other_mode', row[2] }
end
extend(job, member, lease_ms)
return { 'joined', row[1], generation, row[3], redis.call('ZCARD', P .. 'm:' .. job) }
