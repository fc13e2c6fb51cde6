--[[ heartbeat: keep a membership alive.
  KEYS[1] meta           hash
  ARGV[1] job            str
  ARGV[2] incarnation    int
  ARGV[3] member         str
  ARGV[4] lease_ms       int
  ARGV[5] now_ms         int?  empty in production: the server's clock
  BUILDS j:job m:job jobs
  RETURNS {'alive', members} | {'unknown'}
]]
--@include base
--@include hold
--@include job
local job, incarnation, member, lease_ms = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

if not is_current(job, incarnation) then
  return { 'unknown' }
end
extend(job, member, lease_ms)
return { 'alive', drop_lapsed_members(job) }
