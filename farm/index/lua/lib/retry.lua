-- retry: what becomes of a claim whose attempt did not end in an entry. Needs base, interest, queue.

-- Queued again, ahead of all others of its class, under no token.
local function requeue(ref, claim)
  redis.call('ZREM', P .. 'running', ref)
  redis.call('HSET', P .. 'c:' .. ref, 'state', 'queued')
  redis.call('HDEL', P .. 'c:' .. ref, 'token')
  stand_ahead(claim.queue, ref, claim.priority)
end

local function read_claim(ref)
  local row = redis.call('HMGET', P .. 'c:' .. ref, 'state', 'token', 'queue', 'priority', 'attempt', 'story', 'worker')
  return { state = row[1], token = row[2], queue = row[3], priority = row[4], attempt = row[5],
    story = row[6] or '', worker = row[7] }
end

-- Final: waiters of now are told, later askers only while the failure is remembered.
local function refuse_claim(ref, claim, failure, remember_ms, keep_ms)
  redis.call('HSET', P .. 'f:' .. ref, 'error', failure, 'expires_ms', text(now + tonumber(remember_ms)))
  redis.call('PEXPIRE', P .. 'f:' .. ref, text(math.max(tonumber(remember_ms), tonumber(keep_ms))))
  finish_claim(ref, claim.queue, claim.token)
end

-- One attempt is used up; the evidence of each is kept in the claim. Returns 'requeued' or 'failed'.
local function count_attempt(ref, claim, message, log_tail, max_attempts, keep_ms)
  local attempt = tonumber(claim.attempt) + 1
  local story = claim.story .. '\nattempt ' .. attempt .. ' on ' .. claim.worker .. ': ' .. message
  redis.call('HSET', P .. 'c:' .. ref, 'attempt', attempt, 'story', story)
  if attempt < tonumber(max_attempts) then
    requeue(ref, claim)
    return 'requeued'
  end
  local failure = 'transient\nfailed after ' .. attempt .. ' attempts' .. story .. '\0' .. log_tail
  refuse_claim(ref, claim, failure, 0, keep_ms)
  return 'failed'
end
