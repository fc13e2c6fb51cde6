--[[ take: the next queued claim in fair order starts to run, under a fresh fencing token.
  KEYS[1] meta           hash
  ARGV[1] queue          str
  ARGV[2] worker         str
  ARGV[3] nonce          str   of this delivery: the same call sent again answers the same
  ARGV[4] lease_ms       int
  ARGV[5] now_ms         int?  empty in production: the server's clock
  BUILDS queue:NAME c:ref d:nonce running
  RETURNS {'taken', ref, token, attempt, request, epoch of its sources or 0} | {'empty'}
]]
--@include base
--@include queue
local queue, worker, nonce, lease_ms = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

-- A call sent again may come late, also one that found nothing: nobody would compile what it takes then. redis-py
-- gives up long before this.
local NONCE_TTL_MS = 600000

local before = redis.call('GET', P .. 'd:' .. nonce)
if before then
  local token, ref = string.match(before, '^(%d+) (.*)$')
  local row = redis.call('HMGET', P .. 'c:' .. ref, 'token', 'attempt', 'request', 'sources')
  if row[1] == token then
    return { 'taken', ref, token, row[2] + 1, row[3], row[4] or '0' }
  end
  return { 'empty' }
end
local ref = next_in_line(queue)
local token = ref and next_token() or '0'
redis.call('SET', P .. 'd:' .. nonce, token .. ' ' .. (ref or ''), 'PX', NONCE_TTL_MS)
if not ref then
  return { 'empty' }
end
redis.call('HSET', P .. 'c:' .. ref, 'state', 'running', 'token', token, 'worker', worker)
redis.call('ZADD', P .. 'running', now + tonumber(lease_ms), ref)
local row = redis.call('HMGET', P .. 'c:' .. ref, 'attempt', 'request', 'sources')
return { 'taken', ref, token, row[1] + 1, row[2], row[3] or '0' }
