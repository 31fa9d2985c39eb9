#!lua flags=allow-oom
local clock = redis.call('TIME')
-- Marks an account as being changed: until the mark is removed or expires, every caller of it is read from the store.
-- Also runs when Redis is out of memory: keys must be revocable then.
-- args     change: an id of this one change; lifeMs: life of the mark, longer than the change may take
-- returns  nothing
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
redis.call('DEL', versionKey, fillKey)
redis.call('ZREMRANGEBYSCORE', changesKey, '-inf', now)
redis.call('ZADD', changesKey, now + lifeMs, change)
redis.call('PEXPIRE', changesKey, lifeMs)
