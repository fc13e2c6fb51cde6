--[[ ask_purge: ask that entries made before now serve nobody who asks later; answered by the leader.
  KEYS[1] meta           hash
  ARGV[1] request        str   id of the request; a job's is its run, so its members ask once together
  ARGV[2] job            str?  empty: an operator asks
  ARGV[3] incarnation    int
  ARGV[4] now_ms         int?  empty in production: the server's clock
  BUILDS j:job asked:request purges
  RETURNS {'asked'} | {'purged', generation} | {'unknown'} (the job is not there)
]]
--@include base
--@include hold
--@include job
local request, job, incarnation = ARGV[1], ARGV[2], ARGV[3]

-- The answer is kept as long as somebody may still ask for it.
local ANSWER_TTL_MS = 3600000

local answer = redis.call('GET', P .. 'asked:' .. request)
if answer and answer ~= '' then
  return { 'purged', answer }
elseif job ~= '' and not is_current(job, incarnation) then
  return { 'unknown' }
elseif not answer then
  redis.call('SET', P .. 'asked:' .. request, '', 'PX', ANSWER_TTL_MS)
  redis.call('XADD', P .. 'purges', '*', 'request', request, 'job', job, 'incarnation', incarnation)
  redis.call('PUBLISH', 'opfarm:wake', KEYS[1])
end
return { 'asked' }
