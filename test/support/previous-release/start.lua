#!lua flags=allow-oom
local clock = redis.call('TIME')
-- Decides whether a job may call a backend now, and counts the runs of its lease. Runs also when Redis is out of memory.
-- The same taking of the job asking twice (a reply that was lost on the way) is counted once and answered alike; one that was
-- overtaken, because its worker was away for so long that another took the job, has no say any more.
-- KEYS[1]  hash: the account's leases (leases.lua)
-- KEYS[2]  sorted set: when they end
-- KEYS[3]  string: how this request was ended
-- ARGV     request; taken: how often the job was taken from its queue, this time included; graceMs: what a lease lives past the
--          deadline
-- returns  {'run', run, now, deadline}; {'interrupted', run, now}: an earlier run had begun to stream, and no other may;
--          {'late', run, now}: a first start after startBy; {'expired', run, now}: the deadline is over; both still hold the
--          lease; {'superseded', run}: another worker has the job;
--          {'settled', run}, {'gone', run}: there is no lease any more, or there never was one
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local request, taken, graceMs = ARGV[1], tonumber(ARGV[2]), ARGV[3]

local lease = readLease(KEYS[1], request)
if not lease then
  local run = string.match(redis.call('GET', KEYS[3]) or '', '^settled (%d+)')
  if run then return {'settled', run + 1} end
  return {'gone', 1}
end

if lease.taken and taken < lease.taken then return {'superseded', lease.run} end
if lease.taken ~= taken then
  -- A taking that was told `late` called no backend, and if it died of something else the next must not either.
  local isFirst = lease.state == 'admitted'
  lease.run, lease.taken = lease.run + 1, taken
  if lease.state == 'streaming' then lease.answer = 'interrupted'
  elseif now >= lease.deadline then lease.answer = 'expired'
  elseif isFirst and now > lease.startBy then lease.answer = 'late'
  else lease.state, lease.answer = 'started', 'run' end
  redis.call('HSET', KEYS[1], request, cjson.encode(lease))
  redis.call('ZADD', KEYS[2], lease.deadline + graceMs, request)
end
return {lease.answer, lease.run, now, lease.deadline}
