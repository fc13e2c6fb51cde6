--[[ announce: after a reconnect, a member says what it holds; what the index lost is restored.
  KEYS[1] meta           hash
  ARGV[1] job            str
  ARGV[2] incarnation    int   the caller's; the job is started again under it when it is not there
  ARGV[3] member         str
  ARGV[4] mode           str
  ARGV[5] priority       int
  ARGV[6] owner          bytes
  ARGV[7] lease_ms       int
  ARGV[8] floor          int
  ARGV[9...] key         bytes then generation (int), record (bytes), path (str), near_row (bytes), five an entry,
                               at most 250
  ARGV[last] now_ms      int?  empty in production: the server's clock
  BUILDS j:job m:job jobs map:run g:run x:run e:g dropped:g i:g idle:g f:ref tombs deleting generations c:ref w:ref
         t:ref:token told queue:NAME running near:g sources
  RETURNS {'ok', {record in force, ...}} | {'unknown', incarnation} | {'not_open'} | {'over', how and by whom}
          another record than the caller's: switch to it; empty: not restored, ask for the key again
]]
--@include base
--@include hold
--@include job
--@include interest
local job, incarnation, member, mode, priority = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local owner, lease_ms, floor = ARGV[6], ARGV[7], ARGV[8]

if not current_generation() then
  return { 'not_open' }
end
local run = job .. '@' .. incarnation
-- What somebody has ended on purpose, its members do not bring back.
local ended = redis.call('GET', P .. 'x:' .. run)
if ended then
  return { 'over', ended }
end
if redis.call('EXISTS', P .. 'j:' .. job) == 0 then
  start_job(job, incarnation, mode, priority, owner, floor)
  unbury(run)
elseif not is_current(job, incarnation) then
  return { 'unknown', redis.call('HGET', P .. 'j:' .. job, 'incarnation') }
end
extend(job, member, lease_ms)
reach(floor)

-- The index has no entry, the caller has a verified one: it becomes the entry, and a compile of it is over.
local function adopt(g, key, record, path, near_row)
  reach(g)
  enter(g, key, record, near_row)
  redis.call('ZREM', P .. 'tombs', path)
  local ref = ref_of(g, key)
  local queue = redis.call('HGET', P .. 'c:' .. ref, 'queue')
  if queue then
    finish_claim(ref, queue, next_token())
  end
end

-- A reader found that very bundle bad, and it is compiled again.
local function is_dropped(g, key, record)
  return redis.call('HGET', P .. 'dropped:' .. g, key) == token_and_bytes(record)
end

-- The record in force. Nothing from below the floor, or from below what the job has of this key by now; and no
-- bundle that is being deleted, or was dropped.
local function restore(key, g, record, path, near_row)
  local old_g, state = string.match(redis.call('HGET', P .. 'map:' .. run, key) or '', '^(%d+)(.)')
  local least = math.max(tonumber(floor), state == 'i' and tonumber(old_g) or 0)
  if g ~= PRIVATE and tonumber(g) < least then
    return ''
  end
  if redis.call('HEXISTS', P .. 'e:' .. g, key) == 0 then
    if redis.call('ZSCORE', P .. 'deleting', path) or is_dropped(g, key, record) then
      return ''
    end
    adopt(g, key, record, path, near_row)
  end
  if add_interest(g, key, run) and state == 'i' then
    give_back(old_g, key, run, false)
  end
  redis.call('ZREM', P .. 'idle:' .. g, key)
  return redis.call('HGET', P .. 'e:' .. g, key)
end

local in_force = {}
for at = 9, #ARGV - 5, 5 do
  in_force[#in_force + 1] = restore(ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3], ARGV[at + 4])
end
return { 'ok', in_force }
