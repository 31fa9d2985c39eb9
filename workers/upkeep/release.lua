#!lua flags=allow-oom
-- Releases a lock.
-- args     worker: the caller; no effect if another worker holds the lock
-- returns  nothing
if redis.call('GET', lockKey) == worker then redis.call('DEL', lockKey) end
