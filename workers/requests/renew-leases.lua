#!lua flags=allow-oom
local clock = redis.call('TIME')
-- Extends leases that have started; never shortens them. Leases that have ended stay ended. Runs also when Redis is out of memory.
-- keys     leaseEndsKeys: of each request, when the leases of its account expire
-- args     lifeMs: how long they live from now on; requests
local endsAt = string.format('%d', clock[1] * 1000 + math.floor(clock[2] / 1000) + lifeMs)
for index, key in ipairs(leaseEndsKeys) do redis.call('ZADD', key, 'XX', 'GT', endsAt, requests[index]) end
