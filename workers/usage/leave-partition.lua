#!lua flags=allow-oom
-- Leaves a partition to whoever takes it next.
-- KEYS[1]  string: the worker that looks after the partition
-- ARGV[1]  worker: who leaves it; of no effect where another holds it
-- returns  nothing
if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end
