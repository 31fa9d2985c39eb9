#!lua flags=allow-oom
-- Acquires a lock that is free, or renews one that this worker holds. Runs also when Redis is out of memory, because the work under
-- the lock frees memory.
-- args     worker: the caller; holdMs: how long it is held from now on
-- returns  1 if the caller holds it, 0 if another worker does
local holder = redis.call('GET', lockKey)
if holder and holder ~= worker then return 0 end
redis.call('SET', lockKey, worker, 'PX', holdMs)
return 1
