--[[ take: the next queued claim in fair order starts to run, under a fresh fencing token.
  KEYS[1] meta           hash
  ARGV[1] queue          str
  ARGV[2] worker         str
  ARGV[3] nonce          str   of this delivery: the same call sent again answers the same
  ARGV[4] lease_ms       int
  ARGV[5] now_ms         int?  empty in production: the server's clock
  BUILDS queue:NAME c:ref d:nonce running
  RETURNS {'taken', ref, token, attempt, request} | {'empty'}
]]
--@include base
local queue, worker, nonce, lease_ms = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

-- A re-sent call may come late: redis-py gives up long before this.
local NONCE_TTL_MS = 600000
local CLASS = 2 ^ 44

local before = redis.call('GET', P .. 'd:' .. nonce)
if before then
  local token, ref = string.match(before, '^(%d+) (.*)$')
  local row = redis.call('HMGET', P .. 'c:' .. ref, 'token', 'attempt', 'request')
  if row[1] == token then
    return { 'taken', ref, token, row[2] + 1, row[3] }
  end
  return { 'empty' }
end

-- The next place in the queue that has its claim; a few that have none are passed over.
local function next_claim()
  for _ = 1, 10 do
    local head = redis.call('ZPOPMIN', P .. 'queue:' .. queue)
    if not head[1] or redis.call('EXISTS', P .. 'c:' .. head[1]) == 1 then
      return head[1], tonumber(head[2])
    end
  end
end

local ref, score = next_claim()
if not ref then
  redis.call('SET', P .. 'd:' .. nonce, '0 ', 'PX', NONCE_TTL_MS)
  return { 'empty' }
end
local class = math.floor(score / CLASS)
local virtual = 'v:' .. queue .. ':' .. class
if score - class * CLASS > tonumber(redis.call('HGET', KEYS[1], virtual) or '0') then
  redis.call('HSET', KEYS[1], virtual, text(score - class * CLASS))
end
local token = next_token()
redis.call('HSET', P .. 'c:' .. ref, 'state', 'running', 'token', token, 'worker', worker, 'taken_ms', text(now))
redis.call('ZADD', P .. 'running', now + tonumber(lease_ms), ref)
redis.call('SET', P .. 'd:' .. nonce, token .. ' ' .. ref, 'PX', NONCE_TTL_MS)
local row = redis.call('HMGET', P .. 'c:' .. ref, 'attempt', 'request')
return { 'taken', ref, token, row[1] + 1, row[2] }
