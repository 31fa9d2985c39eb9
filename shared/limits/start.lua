#!lua flags=allow-oom
local clock = redis.call('TIME')
-- Decides whether a job may call a backend now, and counts its runs. Runs also when Redis is out of memory.
-- The same execution asking twice (a reply that was lost on the way) is counted once.
-- KEYS[1]  hash of the request's runs: `run`, how often it was started; `execution`, who started it last
-- ARGV[1]  execution: an id of this one execution of the job
-- ARGV[2]  startBy: the latest first start, milliseconds of this clock
-- ARGV[3]  deadline: when the request is over, milliseconds of this clock
-- returns  {'run' | 'late' | 'expired', run, now}; the number of a run that is refused is its own, too
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local execution, startBy, deadline = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])

local stored = redis.call('HMGET', KEYS[1], 'run', 'execution')
local runs = tonumber(stored[1] or 0)
if stored[2] == execution then return {'run', runs, now} end
if now >= deadline then return {'expired', runs + 1, now} end
if runs == 0 and now > startBy then return {'late', 1, now} end

redis.call('HSET', KEYS[1], 'run', runs + 1, 'execution', execution)
redis.call('PEXPIREAT', KEYS[1], deadline + 60000)
return {'run', runs + 1, now}
