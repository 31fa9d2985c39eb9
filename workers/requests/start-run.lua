#!lua flags=allow-oom
local clock = redis.call('TIME')
-- Decides whether a job may call a backend now, and counts the runs of its lease (contract.md#n3-start-of-a-run). Runs also when Redis is
-- out of memory. If the same taking of the job asks twice, because a reply was lost, it is counted once and gets the same answer. A taking
-- that was overtaken, because another worker has taken the job since, is rejected.
-- args     request; taken: how often the job was taken from its queue, including this time; lifeMs: how long the lease lives from
--          now on unless it is renewed; graceMs: max lifetime past the deadline; interruptedMs: lifetime of an interrupted lease,
--          which its ingress settles at once if it still exists
-- returns  words separated by spaces, because a list would cost Redis 3 µs more: one of these, and the numbers of the start (start-run.ts):
--          `run`; `interrupted`: an earlier run had begun to stream, and no other may; `late`: a first start after startBy; `expired`: the
--          deadline is over; all of these still hold the lease; `superseded`: another worker has the job; `settled`, `gone`: the lease has
--          ended, or there never was one
-- include ../../shared/limits/parts/lease
local call, format = redis.call, string.format
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)

local text = call('HGET', leasesKey, request)
if not text then
  local run = string.match(call('GET', endedRequestKey) or '', '^settled (%d+)')
  local ended = {run = (run or 0) + 1, now = now, deadline = now}
  return format('%s $start', run and 'settled' or 'gone', valuesOf.start(ended))
end

local lease = unpackLease(text)
taken = tonumber(taken)
local isSuperseded = lease.taken and taken < lease.taken
if lease.taken ~= taken and not isSuperseded then
  -- A taking that got `late` called no backend. If its worker died afterwards, the next taking must not call one either.
  local isFirst = lease.state == 'admitted'
  lease.run, lease.taken = lease.run + 1, taken
  if lease.state == 'streaming' then lease.answer = 'interrupted'
  elseif now >= lease.deadline then lease.answer = 'expired'
  elseif isFirst and now > lease.startBy then lease.answer = 'late'
  else lease.state, lease.answer = 'started', 'run' end
  call('HSET', leasesKey, request, packLease(lease))
  if lease.answer == 'run' then
    call('ZADD', leaseEndsKey, format('%d', math.min(now + lifeMs, lease.deadline + graceMs)), request)
  end
  if lease.answer == 'interrupted' then call('ZADD', leaseEndsKey, 'LT', format('%d', now + interruptedMs), request) end
end
lease.now = now
return format('%s $start', isSuperseded and 'superseded' or lease.answer, valuesOf.start(lease))
