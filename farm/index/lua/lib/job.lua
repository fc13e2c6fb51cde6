-- job: membership of a job and the end of a job. Needs base, hold.

-- True when the caller speaks for the incarnation that lives now.
local function is_current(job, incarnation)
  return redis.call('HGET', P .. 'j:' .. job, 'incarnation') == incarnation
end

-- Give the member a new deadline; a job lives as long as its longest member lease.
local function extend(job, member, lease_ms)
  local deadline = now + tonumber(lease_ms)
  redis.call('ZADD', P .. 'm:' .. job, 'GT', deadline, member)
  redis.call('ZADD', P .. 'jobs', 'GT', deadline, job)
end

-- Nobody has lapsed while entries are held: members could not say that they live.
local function drop_lapsed_members(job)
  if not entries_are_held() then
    redis.call('ZREMRANGEBYSCORE', P .. 'm:' .. job, '-inf', now)
  end
  return redis.call('ZCARD', P .. 'm:' .. job)
end

-- O(1): the map becomes a graveyard; its interest is given back in chunks by bury.
local function end_job(job, how)
  local incarnation = redis.call('HGET', P .. 'j:' .. job, 'incarnation')
  local run = job .. '@' .. incarnation
  if redis.call('EXISTS', P .. 'map:' .. run) == 1 then
    redis.call('RENAME', P .. 'map:' .. run, P .. 'g:' .. run)
    redis.call('RPUSH', P .. 'graves', how .. run)
  end
  redis.call('UNLINK', P .. 'j:' .. job, P .. 'm:' .. job, P .. 'n:' .. run)
  redis.call('ZREM', P .. 'jobs', job)
end

-- A job that ended while its members were away lives on: what is still buried is its map again, and its line in
-- graves finds nothing to bury.
local function unbury(run)
  if redis.call('EXISTS', P .. 'g:' .. run) == 1 then
    redis.call('RENAME', P .. 'g:' .. run, P .. 'map:' .. run)
  end
end

local function start_job(job, incarnation, mode, priority, owner, floor)
  redis.call('HSET', P .. 'j:' .. job, 'incarnation', incarnation, 'mode', mode, 'priority', priority,
    'owner', owner, 'floor', floor, 'created_ms', text(now))
end
