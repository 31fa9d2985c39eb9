#!lua flags=allow-oom
local clock = redis.call('TIME')
-- Checks that a caller is current (check-version.lua) and returns its account's limit counters. Runs also when Redis is out of memory.
-- KEYS      as the first four of admit.lua: version, fill token, changes, counters
-- constants versionLifeMs, readLifeMs: as in admit.lua
-- ARGV      as the first three of admit.lua: version, `known` or `read`, token
-- returns   `counters` counters (current-counters.lua), `stale` token, or `cold` month
-- include parts/counters
local call, floor, format, match = redis.call, math.floor, string.format, string.match
local now = clock[1] * 1000 + floor(clock[2] / 1000)
local versionKey, fillKey, changesKey, countersKey = unpack(KEYS)
local version, how, token = unpack(ARGV)
-- include parts/check-version
-- include parts/renew-version
-- include parts/current-counters
return withCounters('counters')
