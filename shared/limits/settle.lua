#!lua flags=allow-oom
local clock = redis.call('TIME')
-- Ends a request: used tokens replace its reservation in the bucket and the month that were charged, its lease ends, and its
-- usage goes into the outbox. This happens once, no matter how often it is called (contract.md#n6-settling). If the lease is not known
-- (Redis was emptied), the usage is kept anyway. Runs also when Redis is out of memory.
-- KEYS[1]  hash: the account's limit counters (counters.lua)
-- KEYS[2]  hash: its leases (leases.lua)
-- KEYS[3]  sorted set: when they expire
-- KEYS[4]  sorted set: its lost requests
-- KEYS[5]  string: how this request was ended: `settled` run settler, and the id of its entry in KEYS[6]
-- KEYS[6]  stream: the partition's outbox
-- KEYS[7]  hash: the limit counters of its key (parts/key-counters.lua)
-- KEYS[8]  hash: the claim of the request's idempotency key (find-claim.lua); left out if it has none, as are the next two
-- KEYS[9]  sorted set: the answers that its account keeps (kept-bytes.lua)
-- KEYS[10] hash: the bytes that the partition keeps, by the minute in which they expire
-- constants claimBytes: what a claim counts for at least
-- ARGV     account; request; run that settles; settler, an id of the process that settles; tokens to charge; report for the usage
--          record, JSON; and for a lease that is not known: month, overage (0 or 1), when it was admitted, and its deadline,
--          milliseconds of this clock; with KEYS[8]: the mark of its body; how it ends: `kept`, `lost` or `free`; how long a repeat
--          gets its answer, in milliseconds; and that answer, if it is kept
-- returns  'settled', also if the same settler has already settled; 'refused': it belongs to another run, or was already ended;
--          'lost': its lease has expired, and its record says so
-- include parts/counters
-- include parts/leases
-- include parts/correct-counters
local call = redis.call
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local account, request, run, settler, tokens, report, month, overage, admittedAt, deadline,
  bodyMark, claimEnd, keptMs, answer = unpack(ARGV)

local mark = 'settled ' .. run .. ' ' .. settler
local text = call('HGET', KEYS[2], request)
local runOf, held, bucket, isOfKey, isKeyMonthOnly, keep = nil, 0, 0, false, false, nil
if text then
  -- While a request has a lease, it is neither marked as ended nor lost: every script that ends a request removes the lease, and a later
  -- admission of it gets no new lease.
  local rest
  runOf, deadline, held, bucket, month, overage, admittedAt, rest = string.match(text, '^{"state":"%a+","run":(%d+),"taken":%d+,'
    .. '"answer":"%a+","startBy":%d+,"deadline":(%d+),"tokens":(%d+),"bucket":(%d+),"day":%d+,"month":"([%d-]+)",'
    .. '"overage":(%d),"admittedAt":(%d+),()')
  if runOf then
    local afterKey = string.match(text, '^"key":"[^"]+",()', rest)
    isOfKey = afterKey ~= nil
    keep = string.match(text, '^"keep":(%d+)', afterKey or rest)
  else
    local lease = cjson.decode(text)
    runOf, deadline, held, bucket, month = lease.run, lease.deadline, lease.tokens, lease.bucket, lease.month
    overage, admittedAt, keep = lease.overage, lease.admittedAt, lease.keep
    isOfKey, isKeyMonthOnly = lease.key ~= nil, lease.keyMonthOnly
  end
  if tonumber(runOf) ~= tonumber(run) then return 'refused' end
  call('HDEL', KEYS[2], request)
  call('ZREM', KEYS[3], request)
else
  local ended = call('GET', KEYS[5])
  -- A released request has no run, unless Redis was emptied in between.
  if ended and ended ~= 'released' then
    return string.match(ended, '^(.*) %d+%-%d+$') == mark and 'settled' or 'refused'
  end
  if call('ZSCORE', KEYS[4], request) then return 'lost' end
end

correctCounters(KEYS[1], month, bucket, 0, tonumber(held), tonumber(tokens), tonumber(overage) == 1)
if isOfKey then
  -- include parts/correct-key
  correctKey(KEYS[7], month, isKeyMonthOnly and 0 or bucket, 0, tonumber(held), tonumber(tokens))
end
local entry = call('XADD', KEYS[6], '*', 'request', request, 'account', account, 'month', month, 'tokens', tokens, 'overage',
  overage, 'runs', run, 'admittedAt', admittedAt, 'settledAt', string.format('%d', now), 'report', report)
-- Bounds the life of the mark: otherwise a clock that was put back would keep it for too long, and one put ahead would delete it at once.
local markMs = math.min(math.max(deadline - now, 0), dayMs) + lostLifeMs
call('SET', KEYS[5], mark .. ' ' .. entry, 'PX', string.format('%d', markMs))
if keep or KEYS[8] then
  -- include parts/kept-bytes
  if keep then countReservedBytes(KEYS[1], KEYS[10], deadline, -keep) end
  -- After Redis was emptied, the claim is written again, unless another request has it.
  local claimedBy = KEYS[8] and call('HGET', KEYS[8], 'request')
  if KEYS[8] and (not claimedBy or claimedBy == request) then
    if claimEnd == 'free' then call('DEL', KEYS[8])
    else
      call('HSET', KEYS[8], 'request', request, 'body', bodyMark, 'ended', claimEnd)
      if claimEnd == 'kept' then call('HSET', KEYS[8], 'answer', answer) end
      call('PEXPIRE', KEYS[8], keptMs)
      local bytes = claimBytes + (claimEnd == 'kept' and #answer or 0)
      if keep and bytes > tonumber(keep) then bytes = tonumber(keep) end
      local expiresAt = now + keptMs
      call('ZADD', KEYS[9], string.format('%d', expiresAt), request .. ' ' .. bytes)
      call('PEXPIRE', KEYS[9], keptMs)
      call('HINCRBY', KEYS[1], 'kept', bytes)
      if not keep then call('PEXPIRE', KEYS[1], countersLifeMs) end
      countKeptBytes(KEYS[10], expiresAt, bytes)
    end
  end
end
return 'settled'
