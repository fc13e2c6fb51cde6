--[[ wake: how many compile messages a queue needs now, because some may have been lost.
  KEYS[1] meta           hash
  ARGV[1] queue          str
  ARGV[2] slots          int   free compile slots that serve the queue
  ARGV[3] interval_ms    int   at most one answer above 0 in this time
  ARGV[4] now_ms         int?  empty in production: the server's clock
  BUILDS queue:NAME
  RETURNS messages to send
]]
--@include base
local queue, slots, interval_ms = ARGV[1], ARGV[2], ARGV[3]

local waiting = redis.call('ZCARD', P .. 'queue:' .. queue)
local last = tonumber(redis.call('HGET', KEYS[1], 'woken:' .. queue) or '0')
if waiting == 0 or now - last < tonumber(interval_ms) then
  return 0
end
redis.call('HSET', KEYS[1], 'woken:' .. queue, text(now))
return math.min(waiting, tonumber(slots))
