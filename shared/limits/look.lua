#!lua flags=allow-oom
local clock = redis.call('TIME')
-- Checks that a caller is current (check-version.lua), and changes no counter. Runs also when Redis is out of memory
-- (contract.md#m6-out-of-memory): keys can still be revoked then, and that needs a check of their owner.
-- KEYS      as the first three of admit.lua: version, fill token, changes
-- constants versionLifeMs, readLifeMs: as in admit.lua
-- ARGV      as the first three of admit.lua: version, `known` or `read`, token
-- returns   `current` now, or `stale` token
local call, floor, format = redis.call, math.floor, string.format
local now = clock[1] * 1000 + floor(clock[2] / 1000)
local versionKey, fillKey, changesKey = unpack(KEYS)
local version, how, token = unpack(ARGV)
-- include parts/check-version
-- include parts/renew-version
return format('current %d', now)
