#!lua flags=allow-oom
-- Takes what nobody looks after, or goes on looking after it. Runs also when Redis is out of memory: what is done then is what
-- makes room.
-- KEYS[1]  string: the worker that looks after it
-- ARGV[1]  worker: who asks
-- ARGV[2]  holdMs: how long it is held from now on
-- returns  1 where it is held by who asks, 0 where by another
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
