-- workers: who is registered, and how many compiles at a time run behind each queue. Needs base.
--
-- Every waiting client asks for the sums, so they change with the workers and are not added up when somebody asks.

-- Of many that lapse at once the rest is forgotten by the calls that follow.
local LAPSED_AT_ONCE = 1000

local function count_slots(served, sign)
  local each, queues = string.match(served, '^(%d+)(.*)$')
  for queue in string.gmatch(queues, '%S+') do
    if redis.call('HINCRBY', P .. 'slots', queue, sign * each) == 0 then
      redis.call('HDEL', P .. 'slots', queue)
    end
  end
end

local function serve(worker, served)
  local before = redis.call('HGET', P .. 'served', worker)
  if before == served then
    return
  end
  if before then
    count_slots(before, -1)
  end
  if served then
    count_slots(served, 1)
    redis.call('HSET', P .. 'served', worker, served)
  else
    redis.call('HDEL', P .. 'served', worker)
  end
end

local function forget(worker)
  serve(worker, false)
  redis.call('ZREM', P .. 'worker_leases', worker)
  redis.call('HDEL', P .. 'workers', worker)
end

local function forget_lapsed()
  local lapsed = redis.call('ZRANGEBYSCORE', P .. 'worker_leases', '-inf', now, 'LIMIT', 0, LAPSED_AT_ONCE)
  for _, worker in ipairs(lapsed) do
    forget(worker)
  end
end
