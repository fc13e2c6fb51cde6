--[[ open: give a namespace its meta, or raise it; nobody invents a generation, it is the largest marker of the store.
  KEYS[1] meta           hash
  ARGV[1] generation     int   largest generation marker of the store, at least 1
  ARGV[2] now_ms         int?  empty in production: the server's clock
  RETURNS the generation in force
]]
--@include base
local generation = ARGV[1]

-- A server restored from an older state has forgotten a purge, the store has not.
local current = redis.call('HGET', KEYS[1], 'generation')
if not current or tonumber(current) < tonumber(generation) then
  redis.call('HSET', KEYS[1], 'generation', generation)
end
return redis.call('HGET', KEYS[1], 'generation')
