--[[ hold: nothing that lives is judged for a while; never shortens a hold.
  KEYS[1] meta           hash
  ARGV[1] claims_ms      int   one claim lease
  ARGV[2] entries_ms     int   one job lease
  ARGV[3] now_ms         int?  empty in production: the server's clock
  RETURNS until when entries are held (ms)
]]
--@include base
local claims_ms, entries_ms = ARGV[1], ARGV[2]

local function prolong(field, ms)
  local held = tonumber(redis.call('HGET', KEYS[1], field) or '0')
  local until_ms = text(math.max(held, now + tonumber(ms)))
  redis.call('HSET', KEYS[1], field, until_ms)
  return until_ms
end

prolong('hold_claims_until', claims_ms)
return prolong('hold_until', entries_ms)
