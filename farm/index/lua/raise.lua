--[[ raise: open generation n and answer the purge requests that were queued up to then, a chunk a call.
  KEYS[1] meta           hash
  ARGV[1] generation     int   its marker is in the store already; never goes past it, so twice is as once
  ARGV[2] limit          int   requests answered a call
  ARGV[3] now_ms         int?  empty in production: the server's clock
  BUILDS purges asked:request j:job n:run e:g idle:g purge_log
  RETURNS {generation in force (0: it is not open), requests answered, 1 if this purge answers more of them, else 0}
]]
--@include base
--@include hold
--@include job
--@include interest
local generation, limit = ARGV[1], ARGV[2]

local ANSWER_TTL_MS = 3600000
local LOG_MAX = 1000

-- O(1) in the number of entries: later asks see the new generation only.
local function open_generation(old)
  local last = redis.call('XREVRANGE', P .. 'purges', '+', '-', 'COUNT', 1)
  redis.call('HSET', KEYS[1], 'generation', generation, 'purged_upto', last[1] and last[1][1] or '0-0')
  redis.call('HINCRBY', KEYS[1], 'purges', 1)
  local idle = redis.call('ZCARD', P .. 'idle:' .. old)
  redis.call('XADD', P .. 'purge_log', 'MAXLEN', '~', LOG_MAX, '*', 'generation', generation, 'at_ms', text(now),
    'removed', idle, 'kept', redis.call('HLEN', P .. 'e:' .. old) - idle,
    'bytes', redis.call('HGET', KEYS[1], 'bytes') or '0', 'requests', redis.call('XLEN', P .. 'purges'))
end

local function answer(request, job, incarnation)
  if job ~= '' and not is_current(job, incarnation) then
    redis.call('DEL', P .. 'asked:' .. request)  -- a job that is brought back asks again
    return
  end
  redis.call('SET', P .. 'asked:' .. request, generation, 'PX', ANSWER_TTL_MS)
  if job ~= '' then
    redis.call('HSET', P .. 'j:' .. job, 'floor', generation)
    redis.call('XADD', P .. 'n:' .. job .. '@' .. incarnation, '*', 'g', generation)
  end
end

-- Its meta was lost meanwhile: it is opened at the largest marker, which this one need not be.
local current = current_generation()
if not current then
  return { '0', 0, 0 }
end
if tonumber(current) < tonumber(generation) then
  open_generation(current)
  current = generation
end
local upto = redis.call('HGET', KEYS[1], 'purged_upto') or '0-0'
local queued = {}
if current == generation then
  queued = redis.call('XRANGE', P .. 'purges', '-', upto, 'COUNT', limit)
end
for _, row in ipairs(queued) do
  local fields = row[2]
  answer(fields[2], fields[4], fields[6])
  redis.call('XDEL', P .. 'purges', row[1])
end
return { current, #queued, #redis.call('XRANGE', P .. 'purges', '-', upto, 'COUNT', 1) }
