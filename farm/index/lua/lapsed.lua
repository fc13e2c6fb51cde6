--[[ lapsed: some jobs whose last member's lease is over; end each with leave.
  KEYS[1] meta           hash
  ARGV[1] limit          int
  ARGV[2] now_ms         int?  empty in production: the server's clock
  BUILDS jobs j:job
  RETURNS {job, incarnation, job, incarnation, ...}
]]
--@include base
--@include hold
local limit = ARGV[1]

local out = {}
if entries_are_held() then
  return out
end
for _, job in ipairs(redis.call('ZRANGEBYSCORE', P .. 'jobs', '-inf', now, 'LIMIT', 0, limit)) do
  out[#out + 1] = job
  out[#out + 1] = redis.call('HGET', P .. 'j:' .. job, 'incarnation')
end
return out
