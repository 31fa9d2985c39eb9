#!lua flags=allow-oom
local clock = redis.call('TIME')
-- Has leases that have started end later than they would, and never sooner. Those that have ended stay so. Runs also when Redis
-- is out of memory.
-- KEYS[n]  sorted set: when the leases of an account end
-- ARGV     lifeMs, that they are to live from now on; then for each key how many of its requests follow, and these
local endsAt = string.format('%d', clock[1] * 1000 + math.floor(clock[2] / 1000) + ARGV[1])
local index = 2
for _, key in ipairs(KEYS) do
  local count = tonumber(ARGV[index])
  for each = index + 1, index + count do redis.call('ZADD', key, 'XX', 'GT', endsAt, ARGV[each]) end
  index = index + count + 1
end
