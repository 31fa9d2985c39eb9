#!lua flags=allow-oom
-- Clears a queue in which no job waits as BullMQ does when it finds none: of the marker by which it says that there may be jobs, and which
-- it also sets with each job that is taken, and of the counter for the order of jobs.
-- returns  nothing
if redis.call('LLEN', waitKey) + redis.call('ZCARD', prioritizedKey) > 0 then return end
redis.call('ZREM', markerKey, '0')
redis.call('DEL', counterKey)
