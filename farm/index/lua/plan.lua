--[[ plan: keep a submission that came through Celery, if it is new, and begin its next step, unless one is under way.
  KEYS[1] meta           hash  of the farm, under the farm's own tag
  ARGV[1] id             str   the Celery task's, and the job's
  ARGV[2] manifest       bytes empty: of one that is kept already
  ARGV[3] options        bytes
  ARGV[4] lease_ms       int   of the step: one whose planner died is begun again after it
  ARGV[5] now_ms         int?  empty in production: the server's clock
  BUILDS plan:id plans
  RETURNS {'step', field, value, ...} | {'busy'} | {'answered'} | {'unknown'}
]]
--@include base
local id, manifest, options, lease_ms = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

local plan = P .. 'plan:' .. id
local row = redis.call('HMGET', plan, 'created_ms', 'answered', 'step_until_ms')
if row[2] then
  return { 'answered' }
elseif not row[1] and manifest == '' then
  return { 'unknown' }
elseif not row[1] then
  redis.call('HSET', plan, 'created_ms', text(now), 'manifest', manifest, 'options', options)
elseif now < tonumber(row[3]) then
  return { 'busy' }
end
local until_ms = text(now + tonumber(lease_ms))
redis.call('HSET', plan, 'step_until_ms', until_ms)
redis.call('ZADD', P .. 'plans', until_ms, id)
local reply = redis.call('HGETALL', plan)
table.insert(reply, 1, 'step')
return reply
