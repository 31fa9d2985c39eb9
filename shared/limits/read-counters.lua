#!lua flags=allow-oom
local clock = redis.call('TIME')
-- Checks that a caller is current (check-version.lua) and returns its account's limit counters. Runs also when Redis is out of memory.
-- KEYS      as the first four of admit.lua: version, fill token, changes, counters; then the counters of the caller's key, left out if that
--           has no limits
-- constants versionLifeMs, readLifeMs: as in admit.lua
-- ARGV      as the first three of admit.lua: version, `known` or `read`, token; then the key's id, its limit of the
--           month, -1 for none, and since which month it has had one
-- returns   `counters` counters (current-counters.lua, key-counters.lua), `stale` token, or `cold` month or `cold` month key
-- include parts/counters
local call, floor, format, match = redis.call, math.floor, string.format, string.match
local now = clock[1] * 1000 + floor(clock[2] / 1000)
local versionKey, fillKey, changesKey, countersKey, keyCountersKey = unpack(KEYS)
local version, how, token, keyId, keyPerMonth, keyLimitedSince = unpack(ARGV)
-- include parts/check-version
-- include parts/renew-version
-- include parts/current-counters
-- include parts/key-counters
return withCounters('counters')
