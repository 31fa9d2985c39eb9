#!lua flags=allow-oom
local clock = redis.call('TIME')
-- Removes the mark of one change. Reads during the mark may have returned the old state, so versions set meanwhile are deleted, and reads
-- in progress must not fill one.
-- KEYS[1]  string: the account's version
-- KEYS[2]  string: fill token
-- KEYS[3]  sorted set: changes in progress, by the expiry of their marks, milliseconds of this clock
-- ARGV[1]  change: the id of the mark
-- returns  nothing
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)

redis.call('DEL', KEYS[1], KEYS[2])
redis.call('ZREM', KEYS[3], ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', now)
