#!lua flags=allow-oom
-- Releases a lock.
-- KEYS[1]  string: the worker that holds the lock
-- ARGV[1]  worker: the caller; no effect if another worker holds the lock
-- returns  nothing
if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end
