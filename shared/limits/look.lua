#!lua flags=allow-oom
local clock = redis.call('TIME')
-- Checks that a caller is current (check-version.lua). With countersKey, it also returns the counters of its limits, and with claimKey it
-- tells the first repeats of a request, refused for another reason, what has claimed their key (find-claim.lua). Charges nothing.
-- Runs also when Redis is out of memory (contract.md#m6-out-of-memory): keys can still be revoked then, and that needs a check of their owner.
-- args     of the parts
-- returns  `stale` token, `current` now, `cold` month, `cold` month key, `repeated` how request counters, or `counters` counters
-- include parts/counters
local call, floor, format, match = redis.call, math.floor, string.format, string.match
local now = clock[1] * 1000 + floor(clock[2] / 1000)
-- include parts/check-version
if call('PTTL', versionKey) < versionLifeMs / 2 then call('PEXPIRE', versionKey, versionLifeMs) end
if not countersKey then return format('current %d', now) end
-- include parts/read-holders
-- include parts/find-claim
return withCounters('counters')
