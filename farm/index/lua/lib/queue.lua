-- queue: the fair order in which queued claims are taken. Needs base.
--
-- Start-time fair queueing: the priority class decides first, then a tag. A job's next tag follows its own last one,
-- or the queue's virtual time if that is later; so jobs of a class take turns, however many claims each has waiting.

-- Tags stay below this.
local CLASS = 2 ^ 44

local function virtual_time(queue, class)
  return 'v:' .. queue .. ':' .. class
end

local function stand_in_line(queue, ref, job, class)
  local virtual = tonumber(redis.call('HGET', KEYS[1], virtual_time(queue, class)) or '0')
  local own = tonumber(redis.call('HGET', P .. 'j:' .. job, 'tag:' .. queue) or '0')
  local tag = math.max(virtual, own) + 1
  redis.call('HSET', P .. 'j:' .. job, 'tag:' .. queue, text(tag))
  redis.call('ZADD', P .. 'queue:' .. queue, tonumber(class) * CLASS + tag, ref)
end

-- A queued claim that a more urgent job joins stands where that job's own would; it never falls back.
local function lift(ref, claim, job, class)
  if claim.state == 'queued' and tonumber(class) < tonumber(claim.priority) then
    redis.call('HSET', P .. 'c:' .. ref, 'priority', class)
    stand_in_line(claim.queue, ref, job, class)
  end
end

-- Ahead of all others of its class.
local function stand_ahead(queue, ref, class)
  redis.call('ZADD', P .. 'queue:' .. queue, tonumber(class) * CLASS, ref)
end

-- The next in line is taken out of it; a few that have no claim are passed over.
local function next_in_line(queue)
  for _ = 1, 10 do
    local ref, score = unpack(redis.call('ZPOPMIN', P .. 'queue:' .. queue))
    if not ref then
      return nil
    elseif redis.call('EXISTS', P .. 'c:' .. ref) == 1 then
      local class = math.floor(tonumber(score) / CLASS)
      local tag = tonumber(score) - class * CLASS
      -- The tags in line are never below the virtual time, but for those of claims that stand ahead of all.
      if tag > 0 then
        redis.call('HSET', KEYS[1], virtual_time(queue, class), text(tag))
      end
      return ref
    end
  end
end
