#!lua flags=allow-oom
-- Acquires a lock that is free, or renews one that this worker holds. Runs also when Redis is out of memory, because the work under
-- the lock frees memory.
-- KEYS[1]  string: the worker that holds the lock
-- ARGV[1]  worker: the caller
-- ARGV[2]  holdMs: how long it is held from now on, milliseconds
-- returns  1 if the caller holds it, 0 if another worker does
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
