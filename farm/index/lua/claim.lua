--[[ claim: queue a compile for each absent key of a batch; what has come meanwhile is answered as acquire does.
  KEYS[1] meta           hash
  ARGV[1] job            str
  ARGV[2] incarnation    int
  ARGV[3] member         str
  ARGV[4] lease_ms       int
  ARGV[5] floor          int
  ARGV[6] scope          str   as acquire's
  ARGV[7] nonce          str   the caller's, so that a call sent again answers the same
  ARGV[8] sources        int   epoch of the sources that the requests name in the store; 0: none
  ARGV[9] until_ms       int   until when new claims may name them
  ARGV[10...] key        bytes then request (bytes) and queue (str), three a claim, at most 250
  ARGV[last] now_ms      int?  empty in production: the server's clock
  BUILDS j:job m:job jobs map:run e:g dropped:g i:g idle:g c:ref w:ref f:ref queue:NAME running tombs sources
  RETURNS {'ok', states, {payload, ...}, generations} | {'unknown'} | {'stale'} (the sources may be gone)
          state c: claimed by the caller
]]
--@include base
--@include hold
--@include job
--@include interest
--@include queue
--@include resolve
local job, incarnation, member, lease_ms, floor = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local scope, nonce, sources, until_ms = ARGV[6], ARGV[7], ARGV[8], ARGV[9]

if not is_current(job, incarnation) then
  return { 'unknown' }
elseif sources ~= '0' and now >= tonumber(until_ms) then
  return { 'stale' }
end
extend(job, member, lease_ms)
local run = job .. '@' .. incarnation
local keys, requests, queues = {}, {}, {}
for at = 10, #ARGV - 3, 3 do
  local n = #keys + 1
  keys[n], requests[n], queues[n] = ARGV[at], ARGV[at + 1], ARGV[at + 2]
end
local states, payloads, generations = resolve(job, run, floor, scope, keys)
local priority = redis.call('HGET', P .. 'j:' .. job, 'priority')

-- A key that is named twice is one claim.
local made = {}
for n, key in ipairs(keys) do
  local ref = ref_of(generations[n], key)
  if states[n] == 'a' and not made[ref] then
    made[ref] = true
    redis.call('HSET', P .. 'c:' .. ref, 'state', 'queued', 'attempt', 0, 'nonce', nonce, 'queue', queues[n],
      'priority', priority, 'request', requests[n], 'job', job)
    if sources ~= '0' then
      redis.call('HSET', P .. 'c:' .. ref, 'sources', sources)
      redis.call('HINCRBY', P .. 'sources', sources, 1)
    end
    redis.call('SADD', P .. 'w:' .. ref, run)
    add_interest(generations[n], key, run)
    stand_in_line(queues[n], ref, job, priority)
    redis.call('HINCRBY', KEYS[1], 'misses', 1)
  end
  if states[n] == 'a' or states[n] == 'j' and redis.call('HGET', P .. 'c:' .. ref, 'nonce') == nonce then
    states[n] = 'c'
  end
end
return reply_of(states, payloads, generations)
