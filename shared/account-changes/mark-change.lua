#!lua flags=allow-oom
local clock = redis.call('TIME')
-- Marks an account as being changed: until the mark is removed or expires, every caller of it is read from the store.
-- Also runs when Redis is out of memory: keys must be revocable then.
-- KEYS[1]  string: the account's version
-- KEYS[2]  string: fill token
-- KEYS[3]  sorted set: changes in progress, by the expiry of their marks, milliseconds of this clock
-- ARGV[1]  change: an id of this one change
-- ARGV[2]  lifeMs: life of the mark, milliseconds; longer than the change may take
-- returns  nothing
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local change, lifeMs = ARGV[1], tonumber(ARGV[2])

redis.call('DEL', KEYS[1], KEYS[2])
redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', now)
redis.call('ZADD', KEYS[3], now + lifeMs, change)
redis.call('PEXPIRE', KEYS[3], lifeMs)
