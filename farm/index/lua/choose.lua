--[[ choose: fix the fingerprint that the job uses for a toolchain; the first member decides.
  KEYS[1] meta           hash
  ARGV[1] job            str
  ARGV[2] incarnation    int
  ARGV[3] toolchain      str
  ARGV[4] fingerprint    str   the caller's candidate
  ARGV[5] now_ms         int?  empty in production: the server's clock
  BUILDS j:job
  RETURNS {'chosen', fingerprint} | {'unknown'}
]]
--@include base
--@include hold
--@include job
local job, incarnation, toolchain, fingerprint = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

if not is_current(job, incarnation) then
  return { 'unknown' }
end
redis.call('HSETNX', P .. 'j:' .. job, 'fp:' .. toolchain, fingerprint)
return { 'chosen', redis.call('HGET', P .. 'j:' .. job, 'fp:' .. toolchain) }
