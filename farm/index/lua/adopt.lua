--[[ adopt: bundles found in the store become entries where the index has none; a live claim wins over them.
  Private ones do not: only the job that holds one knows whether it still wants it, and announces it.
  KEYS[1] meta           hash
  ARGV[1...] key         bytes then generation (int), record (bytes), path (str) and near_row (bytes), five a bundle,
                               at most 250
  ARGV[last] now_ms      int?  empty in production: the server's clock
  BUILDS e:g dropped:g i:g idle:g f:ref c:ref tombs deleting generations near:g
  RETURNS how many were adopted
]]
--@include base
--@include interest

if not current_generation() then
  return 0
end
local adopted = 0
for at = 1, #ARGV - 5, 5 do
  local key, g, record, path, near_row = unpack(ARGV, at, at + 4)
  local known = g == PRIVATE or redis.call('HEXISTS', P .. 'e:' .. g, key) == 1
    or redis.call('EXISTS', P .. 'c:' .. ref_of(g, key)) == 1
    or redis.call('ZSCORE', P .. 'deleting', path) or redis.call('ZSCORE', P .. 'tombs', path)
  if not known then
    reach(g)
    enter(g, key, record, near_row)
    if redis.call('HEXISTS', P .. 'i:' .. g, key) == 0 then
      -- Also in a retired generation: who holds it has one job lease to say so before it is drained.
      redis.call('ZADD', P .. 'idle:' .. g, time_of_use(), key)
    end
    adopted = adopted + 1
  end
end
return adopted
