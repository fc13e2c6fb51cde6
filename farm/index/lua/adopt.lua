--[[ adopt: bundles that lie in the store become entries where the index has none; a live claim wins over them.
  Private ones do not: only the job that holds one knows whether it still wants it, and announces it.
  KEYS[1] meta           hash
  ARGV[1] reserved       int   1: an import's, and only while their places are kept (reserve); 0: a rebuild found them
  ARGV[2...] key         bytes then generation (int), record (bytes), path (str) and near_row (bytes), five a bundle,
                               at most 250
  ARGV[last] now_ms      int?  empty in production: the server's clock
  BUILDS e:g dropped:g i:g idle:g f:ref c:ref tombs deleting generations near:g coming
  RETURNS a letter a bundle: a adopted, s it was the entry already, o another one is, c claimed, r refused
]]
--@include base
--@include interest
local reserved = ARGV[1]

local function is_refused(g, path)
  return g == PRIVATE or redis.call('ZSCORE', P .. 'deleting', path) or redis.call('ZSCORE', P .. 'tombs', path)
    or reserved == '1' and not is_coming(path)
end

local function adopt(key, g, record, path, near_row)
  local entry = redis.call('HGET', P .. 'e:' .. g, key)
  if entry then
    return entry == record and 's' or 'o'
  elseif redis.call('EXISTS', P .. 'c:' .. ref_of(g, key)) == 1 then
    return 'c'
  elseif is_refused(g, path) then
    return 'r'
  end
  reach(g)
  enter(g, key, record, near_row)
  if redis.call('HEXISTS', P .. 'i:' .. g, key) == 0 then
    -- Also in a retired generation: who holds it has one job lease to say so before it is drained.
    redis.call('ZADD', P .. 'idle:' .. g, time_of_use(), key)
  end
  return 'a'
end

local answers = {}
for at = 2, #ARGV - 5, 5 do
  answers[#answers + 1] = current_generation() and adopt(unpack(ARGV, at, at + 4)) or 'r'
  redis.call('ZREM', P .. 'coming', ARGV[at + 3])
end
return table.concat(answers)
