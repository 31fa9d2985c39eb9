#!lua flags=allow-oom
-- Takes an admission back: everything that it was charged is refunded, and it leaves no usage record (contract.md#n9-release).
-- A request that is not known here is marked, so that a late admission of it is void. Runs also when Redis is out of memory.
-- A repeated call changes nothing.
-- keys     those of a claim are left out if it has none
-- args     request; lifeMs of the mark; which: `admitted`, to release it only if its job has not started; the number of its
--          latest run, given by the process that runs it; or `any`, if the caller knows that no process runs it
-- returns  'released', 'started' or 'ended' (settled or lost)
-- include parts/counters
-- include parts/lease
-- include parts/end-lease
local text = redis.call('HGET', leasesKey, request)
if text then
  local lease = unpackLease(text)
  if lease.run ~= 0 and which ~= 'any' and lease.run ~= tonumber(which) then return 'started' end
  endLease(request, lease, keyCountersKey, -1, 0)
else
  local ended = redis.call('GET', endedRequestKey)
  if ended then return ended == 'released' and 'released' or 'ended' end
  if redis.call('ZSCORE', lostRequestsKey, request) then return 'ended' end
end
redis.call('SET', endedRequestKey, 'released', 'PX', lifeMs)
if claimKey and redis.call('HGET', claimKey, 'request') == request then redis.call('DEL', claimKey) end
return 'released'
