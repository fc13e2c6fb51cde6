-- base: the namespace's key prefix, the one clock, and numbers as text.

local P = string.sub(KEYS[1], 1, -5)

-- Deadlines are judged by the server's clock; only tests pass a time.
local function clock(override)
  if override ~= '' then
    return tonumber(override)
  end
  local t = redis.call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end

local now = clock(ARGV[#ARGV])

local function text(n)
  return string.format('%.0f', n)
end

local function ref_of(g, key)
  return g .. ':' .. key
end

-- Tokens and incarnations grow even on a server restored from an older snapshot: they follow its clock.
local function next_token()
  local last = tonumber(redis.call('HGET', KEYS[1], 'last_token') or '0')
  local token = text(math.max(last + 1, now * 1000))
  redis.call('HSET', KEYS[1], 'last_token', token)
  return token
end
