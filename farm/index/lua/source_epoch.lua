--[[ source_epoch: the epoch into which sources are put now; whoever finds none opens one, the leader opens the next.
  KEYS[1] meta           hash  of the farm, under the farm's own tag
  ARGV[1] over           int   the epoch to be left, if it is in force; 0: none
  ARGV[2] now_ms         int?  empty in production: the server's clock
  BUILDS source_epoch
  RETURNS {epoch in force, now (ms)}
]]
--@include base
local over = ARGV[1]

local epoch = redis.call('GET', P .. 'source_epoch')
if not epoch or epoch == over then
  epoch = text(math.max(now, over + 1))
  redis.call('SET', P .. 'source_epoch', epoch)
end
return { epoch, text(now) }
