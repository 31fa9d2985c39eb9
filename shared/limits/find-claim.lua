#!lua flags=allow-oom
local clock = redis.call('TIME')
-- Checks that a caller is current, and finds the claim of a request's idempotency key, for a request that is refused for another reason
-- unless it is one of the first repeats. Runs also when Redis is out of memory.
-- KEYS      as the first four of admit.lua: version, fill token, changes, counters; then its leases, its lost requests, the claim,
--           and the counters of the caller's key, left out if that has no limits
-- constants versionLifeMs, readLifeMs, repeatsFree: as in admit.lua
-- ARGV      as the first three of admit.lua: version, `known` or `read`, token; then request; the marks of its body; the key's id,
--           its limit of the month, -1 for none, and since which month it has had one
-- returns   as read-counters.lua, or `repeated` how request counters (parts/find-claim.lua)
-- include parts/counters
local call, floor, format, match = redis.call, math.floor, string.format, string.match
local now = clock[1] * 1000 + floor(clock[2] / 1000)
local versionKey, fillKey, changesKey, countersKey, leasesKey, lostKey, claimKey, keyCountersKey = unpack(KEYS)
local version, how, token, request, bodyMarks, keyId, keyPerMonth, keyLimitedSince = unpack(ARGV)
-- include parts/check-version
-- include parts/renew-version
-- include parts/current-counters
-- include parts/key-counters
-- include parts/find-claim
return withCounters('counters')
