#!lua flags=allow-oom
-- Leaves what a worker looks after to whoever takes it next.
-- KEYS[1]  string: the worker that looks after it
-- ARGV[1]  worker: who leaves it; of no effect where another holds it
-- returns  nothing
if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end
