#!lua flags=allow-oom
-- Clears a queue that has no job, waiting or delayed, as BullMQ does when it finds none: of the marker by which it says that there may be
-- jobs, and which it also sets with each job that is taken, and of the counter for the order of jobs. While jobs are delayed the marker
-- stays: only a taking that finds none tells a worker when the next of them is due.
-- returns  1 if jobs wait, 0 if none does
local call = redis.call
if call('LLEN', waitKey) + call('ZCARD', prioritizedKey) > 0 then return 1 end
if call('ZCARD', delayedKey) == 0 then
  call('ZREM', markerKey, '0')
  call('DEL', counterKey)
end
return 0
