#!lua
local clock = redis.call('TIME')
-- Marks a device as being removed, as ingresses mark an account that they change (shared/account-changes), unless Redis knows of a
-- use that the store may not know. Until the mark expires, every caller of the account is read from the store.
-- KEYS[1]  string: the account's version, which exists for an hour after a use
-- KEYS[2]  string: fill token
-- KEYS[3]  sorted set: changes in progress, by when their marks expire, milliseconds of this clock
-- KEYS[4]  hash: the account's limit counters, which exist for 62 days after a request
-- KEYS[5]  hash: its leases
-- ARGV[1]  change: an id of this removal
-- ARGV[2]  lifeMs: lifetime of the mark, milliseconds; longer than the removal may take
-- returns  1 if it is marked, 0 if the device is in use
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local change, lifeMs = ARGV[1], tonumber(ARGV[2])

if redis.call('EXISTS', KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]) > 0 then return 0 end
redis.call('ZADD', KEYS[3], now + lifeMs, change)
redis.call('PEXPIRE', KEYS[3], lifeMs)
return 1
