--[[ slots: how many compiles at a time the live workers of each queue can run; of thousands of workers a short answer.
  KEYS[1] meta           hash  of the farm, under the farm's own tag
  ARGV[1] now_ms         int?  empty in production: the server's clock
  BUILDS served worker_leases
  RETURNS {queue, slots, queue, slots, ...}
]]
--@include base

-- Lua hands over some thousands of values at once, not more.
local CHUNK = 500

-- Most workers serve the same: how many do, by what they serve.
local workers = {}
local live = redis.call('ZRANGEBYSCORE', P .. 'worker_leases', '(' .. text(now), '+inf')
for at = 1, #live, CHUNK do
  for _, served in ipairs(redis.call('HMGET', P .. 'served', unpack(live, at, math.min(at + CHUNK - 1, #live)))) do
    if served then
      workers[served] = (workers[served] or 0) + 1
    end
  end
end
local slots = {}
for served, count in pairs(workers) do
  local each, queues = string.match(served, '^(%d+)(.*)$')
  for queue in string.gmatch(queues, '%S+') do
    slots[queue] = (slots[queue] or 0) + each * count
  end
end
local out = {}
for queue, total in pairs(slots) do
  out[#out + 1] = queue
  out[#out + 1] = total
end
return out
