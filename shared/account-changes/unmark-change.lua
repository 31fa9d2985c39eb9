#!lua flags=allow-oom
local clock = redis.call('TIME')
-- Removes the mark of one change. Reads during the mark may have returned the old state, so versions set meanwhile are deleted, and reads
-- in progress must not fill one.
-- args     change: the id of the mark
-- returns  nothing
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
redis.call('DEL', versionKey, fillKey)
redis.call('ZREM', changesKey, change)
redis.call('ZREMRANGEBYSCORE', changesKey, '-inf', now)
