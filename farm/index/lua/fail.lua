--[[ fail: end an attempt without an entry, if the caller still holds the claim.
  KEYS[1] meta           hash
  ARGV[1] generation     int
  ARGV[2] key            bytes
  ARGV[3] token          int   fencing token of the take
  ARGV[4] kind           str   rejected: final. transient: counted, queued again until attempts are used up.
                               released, cancelled: queued again, not counted.
                               But a claim that nobody wants any more is removed
  ARGV[5] message        str
  ARGV[6] log_tail       str
  ARGV[7] remember_ms    int   how long later askers are told of a rejection; 0: not at all
  ARGV[8] keep_ms        int   how long those who waited may still ask: one job lease
  ARGV[9] max_attempts   int
  ARGV[10] now_ms        int?  empty in production: the server's clock
  BUILDS c:ref w:ref t:ref:token told running queue:NAME f:ref i:g sources
  RETURNS {'requeued', queue} | {'failed'} | {'removed'} | {'lost'}
]]
--@include base
--@include interest
--@include queue
--@include retry
local g, key, token, kind, message = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local log_tail, remember_ms, keep_ms, max_attempts = ARGV[6], ARGV[7], ARGV[8], ARGV[9]

local ref = ref_of(g, key)
local claim = read_claim(ref)
if claim.token ~= token then
  return { 'lost' }
end
if kind == 'rejected' then
  refuse_claim(ref, claim, kind .. '\n' .. message .. '\0' .. log_tail, remember_ms, keep_ms)
  return { 'failed' }
end
if redis.call('HEXISTS', P .. 'i:' .. g, key) == 0 then
  remove_claim(ref, claim.queue)
  return { 'removed' }
end
if kind ~= 'transient' then
  requeue(ref, claim)
elseif count_attempt(ref, claim, message, log_tail, max_attempts, keep_ms) == 'failed' then
  return { 'failed' }
end
return { 'requeued', claim.queue }
