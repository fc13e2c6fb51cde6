--[[ slots: how many compiles at a time the live workers of each queue can run; of thousands of workers a short answer.
  KEYS[1] meta           hash  of the farm, under the farm's own tag
  ARGV[1] now_ms         int?  empty in production: the server's clock
  BUILDS served worker_leases slots
  RETURNS {queue, slots, queue, slots, ...}
]]
--@include base

-- Lua hands over some thousands of values at once, not more.
local CHUNK = 500

-- A sum is good for so long, unless a worker comes, leaves or serves something else (register): only lapsed ones are
-- noticed later. Every waiting client asks.
local GOOD_MS = 1000

-- Most workers serve the same: how many do, by what they serve.
local function count_workers()
  local workers = {}
  local live = redis.call('ZRANGEBYSCORE', P .. 'worker_leases', '(' .. text(now), '+inf')
  for at = 1, #live, CHUNK do
    for _, served in ipairs(redis.call('HMGET', P .. 'served', unpack(live, at, math.min(at + CHUNK - 1, #live)))) do
      if served then
        workers[served] = (workers[served] or 0) + 1
      end
    end
  end
  return workers
end

local function add_up()
  redis.call('DEL', P .. 'slots')
  redis.call('HSET', P .. 'slots', '', text(now))
  for served, count in pairs(count_workers()) do
    local each, queues = string.match(served, '^(%d+)(.*)$')
    for queue in string.gmatch(queues, '%S+') do
      redis.call('HINCRBY', P .. 'slots', queue, each * count)
    end
  end
end

local added_ms = tonumber(redis.call('HGET', P .. 'slots', '') or '0')
if math.abs(now - added_ms) >= GOOD_MS then
  add_up()
end
local out, rows = {}, redis.call('HGETALL', P .. 'slots')
for at = 1, #rows, 2 do
  if rows[at] ~= '' then
    out[#out + 1] = rows[at]
    out[#out + 1] = rows[at + 1]
  end
end
return out
