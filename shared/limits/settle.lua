#!lua flags=allow-oom
local clock = redis.call('TIME')
-- Ends a request: its charged tokens replace its reservation in the bucket and the month that were charged, its lease ends, and its
-- usage goes into the outbox. This happens once, no matter how often it is called (contract.md#n6-settling). If the lease is not known
-- (Redis was emptied), the usage is kept anyway. Runs also when Redis is out of memory.
-- keys     endedRequestKey gets `settled` run settler, and the id of its entry in the outbox; those of a claim are left out if it has none
-- args     account; request; run that settles; settler, an id of the process that settles; chargedTokens; report for the usage
--          record, JSON; and for a lease that is not known: month, overage (0 or 1), admittedAt and its deadline, milliseconds of this
--          clock; with claimKey: bodyMark; claimEnd, how it ends: `kept`, `lost` or `free`; keptMs: how long a repeat gets its answer;
--          and that answer, if it is kept
-- returns  'settled', also if the same settler has already settled; 'refused': it belongs to another run, or was already ended;
--          'lost': its lease has expired, and its record says so
-- include parts/counters
-- include parts/lease
-- include parts/end-lease
local call, format = redis.call, string.format
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)

local mark = 'settled ' .. run .. ' ' .. settler
local text = call('HGET', leasesKey, request)
local lease
if text then
  -- While a request has a lease, it is neither marked as ended nor lost: every script that ends a request removes the lease, and a later
  -- admission of it gets no new lease.
  lease = unpackLease(text)
  if lease.run ~= tonumber(run) then return 'refused' end
else
  local ended = call('GET', endedRequestKey)
  -- A released request has no run, unless Redis was emptied in between.
  if ended and ended ~= 'released' then
    return string.match(ended, '^(.*) %d+%-%d+$') == mark and 'settled' or 'refused'
  end
  if call('ZSCORE', lostRequestsKey, request) then return 'lost' end
  lease = {month = month, bucket = 0, reservedTokens = 0, overage = tonumber(overage), admittedAt = admittedAt, deadline = tonumber(deadline)}
end

endLease(request, lease, keyCountersKey, 0, tonumber(chargedTokens))
local entry = call('XADD', outboxKey, '*', 'request', request, 'account', account, 'month', lease.month, 'chargedTokens', chargedTokens, 'overage',
  format('%d', lease.overage), 'runs', run, 'admittedAt', format('%d', lease.admittedAt), 'settledAt', format('%d', now), 'report', report)
-- Bounds the life of the mark: otherwise a clock that was put back would keep it for too long, and one put ahead would delete it at once.
local markMs = math.min(math.max(lease.deadline - now, 0), dayMs) + lostLifeMs
call('SET', endedRequestKey, mark .. ' ' .. entry, 'PX', format('%d', markMs))
if claimKey then
  -- include parts/kept-bytes
  -- After Redis was emptied, the claim is written again, unless another request has it.
  local claimedBy = call('HGET', claimKey, 'request')
  if not claimedBy or claimedBy == request then
    if claimEnd == 'free' then call('DEL', claimKey)
    else
      call('HSET', claimKey, 'request', request, 'body', bodyMark, 'ended', claimEnd)
      if answer then call('HSET', claimKey, 'answer', answer) end
      call('PEXPIRE', claimKey, keptMs)
      local bytes = math.min(claimBytes + (answer and #answer or 0), lease.keep or math.huge)
      local expiresAt = now + keptMs
      call('ZADD', keptAnswersKey, format('%d', expiresAt), request .. ' ' .. bytes)
      call('PEXPIRE', keptAnswersKey, keptMs)
      call('HINCRBY', countersKey, 'kept', bytes)
      if not lease.keep then call('PEXPIRE', countersKey, countersLifeMs) end
      countKeptBytes(keptBytesKey, expiresAt, bytes)
    end
  end
end
return 'settled'
