#!lua flags=allow-oom
local clock = redis.call('TIME')
-- Takes the mark of one change away. What was read while it stood may be from before the change, so no version that came
-- in the meantime stays, and no reading that has begun may fill one.
-- KEYS[1]  string: the account's version
-- KEYS[2]  string: fill token
-- KEYS[3]  sorted set: changes under way, by when their marks end, milliseconds of this clock
-- ARGV[1]  change: the id that the account was marked with
-- returns  nothing
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)

redis.call('DEL', KEYS[1], KEYS[2])
redis.call('ZREM', KEYS[3], ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', now)
