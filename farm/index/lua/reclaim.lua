--[[ reclaim: running claims whose lease ended lose their token and are queued again, ahead of others.
  KEYS[1] meta           hash
  ARGV[1] limit          int   at most this many a call
  ARGV[2] keep_ms        int   one job lease, see fail
  ARGV[3] max_attempts   int
  ARGV[4] now_ms         int?  empty in production: the server's clock
  BUILDS running c:ref w:ref t:ref:token told queue:NAME f:ref i:g sources
  RETURNS {queue, ...}: one for each claim queued again
]]
--@include base
--@include hold
--@include interest
--@include queue
--@include retry
local limit, keep_ms, max_attempts = ARGV[1], ARGV[2], ARGV[3]

local queues = {}
if claims_are_held() then
  return queues
end
for _, ref in ipairs(redis.call('ZRANGEBYSCORE', P .. 'running', '-inf', now, 'LIMIT', 0, limit)) do
  local claim = read_claim(ref)
  local g, key = string.match(ref, '^(%d+):(.*)$')
  if not claim.queue or redis.call('HEXISTS', P .. 'i:' .. g, key) == 0 then
    remove_claim(ref, claim.queue or '')
  elseif count_attempt(ref, claim, 'worker lost, its lease ended', '', max_attempts, keep_ms) == 'requeued' then
    queues[#queues + 1] = claim.queue
  end
end
return queues
