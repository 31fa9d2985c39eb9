#!lua
local clock = redis.call('TIME')
-- Marks a device as being removed, as ingresses mark an account that they change (shared/account-changes), unless Redis knows of a
-- use that the store may not know: its version exists for an hour after a use, its counters for 62 days after a request. Until the mark
-- expires, every caller of the account is read from the store.
-- args     change: an id of this removal; lifeMs: life of the mark, longer than the removal may take
-- returns  1 if it is marked, 0 if the device is in use
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
if redis.call('EXISTS', versionKey, fillKey, changesKey, countersKey, leasesKey) > 0 then return 0 end
redis.call('ZADD', changesKey, now + lifeMs, change)
redis.call('PEXPIRE', changesKey, lifeMs)
return 1
