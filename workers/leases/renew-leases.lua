#!lua flags=allow-oom
local clock = redis.call('TIME')
-- Extends leases that have started; never shortens them. Leases that have ended stay ended. Runs also when Redis is out of memory.
-- KEYS[n]  sorted set: when the leases of an account expire
-- ARGV     lifeMs: how long they live from now on; then for each key: the number of its requests, and the requests
local endsAt = string.format('%d', clock[1] * 1000 + math.floor(clock[2] / 1000) + ARGV[1])
local index = 2
for _, key in ipairs(KEYS) do
  local count = tonumber(ARGV[index])
  for each = index + 1, index + count do redis.call('ZADD', key, 'XX', 'GT', endsAt, ARGV[each]) end
  index = index + count + 1
end
