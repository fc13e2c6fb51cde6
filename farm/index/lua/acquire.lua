--[[ acquire: answer a batch of keys for a job, pin what is there, and extend the member's lease, in one step.
  KEYS[1] meta           hash
  ARGV[1] job            str
  ARGV[2] incarnation    int
  ARGV[3] member         str
  ARGV[4] lease_ms       int   so that no interest is ever without a deadline
  ARGV[5] floor          int   generation the job was promised; the namespace is raised to it
  ARGV[6] scope          str   'shared', or 'private': the keys are the job's own, and go with it
  ARGV[7...] key         bytes at most 500
  ARGV[last] now_ms      int?  empty in production: the server's clock
  BUILDS j:job m:job jobs map:run e:g dropped:g i:g idle:g c:ref w:ref f:ref queue:NAME running tombs sources
  RETURNS {'ok', states, {payload, ...}, generations} | {'unknown'}
]]
--@include base
--@include hold
--@include job
--@include interest
--@include queue
--@include resolve
local job, incarnation, member, lease_ms, floor = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local scope = ARGV[6]
local keys = { unpack(ARGV, 7, #ARGV - 1) }

if not is_current(job, incarnation) then
  return { 'unknown' }
end
extend(job, member, lease_ms)
local states, payloads, generations = resolve(job, job .. '@' .. incarnation, floor, scope, keys)
return reply_of(states, payloads, generations)
