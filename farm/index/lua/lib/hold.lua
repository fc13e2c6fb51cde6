-- hold: after a gap nobody is judged by a deadline that he could not meet. Needs base.

-- Until then no claim is taken from its worker.
local function claims_are_held()
  return now < tonumber(redis.call('HGET', KEYS[1], 'hold_claims_until') or '0')
end

-- Until then no job ends for its silence, and nothing is evicted, drained or swept.
local function entries_are_held()
  return now < tonumber(redis.call('HGET', KEYS[1], 'hold_until') or '0')
end
