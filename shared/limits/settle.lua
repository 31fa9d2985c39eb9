#!lua flags=allow-oom
local clock = redis.call('TIME')
-- Ends a request: its reservation is replaced by what it has used, in the bucket and the month that were charged, its lease
-- ends, and its usage goes into the outbox; once, however often this is called. Where the lease is not known (Redis was
-- emptied) the usage is kept all the same. Runs also when Redis is out of memory.
-- KEYS[1]  hash: the account's limit counters (counters.lua)
-- KEYS[2]  hash: its leases (leases.lua)
-- KEYS[3]  sorted set: when they end
-- KEYS[4]  sorted set: its requests that were lost
-- KEYS[5]  string: how this request was ended
-- KEYS[6]  stream: the partition's outbox
-- ARGV     account; request; run that settles; settler, an id of whoever does; tokens to charge; report for the usage record,
--          JSON; and for a lease that is not known: month, overage (0 or 1), and when it was admitted and is over,
--          milliseconds of this clock
-- returns  'settled', also where the same settler has done so before; 'refused': another run's, or ended before; 'lost': its lease
--          has expired, and its record says so
-- include parts/counters
-- include parts/leases
-- include parts/correct-counters
local call = redis.call
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local account, request, run, settler, tokens, report, month, overage, admittedAt, deadline = unpack(ARGV)

local mark = 'settled ' .. run .. ' ' .. settler
local text = call('HGET', KEYS[2], request)
local runOf, held, bucket = nil, 0, 0
if text then
  -- A request whose lease stands is not marked as ended, and not lost: whatever ends one takes the lease, and no later
  -- admission of it is given another.
  runOf, deadline, held, bucket, month, overage, admittedAt = string.match(text, '^{"state":"%a+","run":(%d+),"taken":%d+,'
    .. '"answer":"%a+","startBy":%d+,"deadline":(%d+),"tokens":(%d+),"bucket":(%d+),"day":%d+,"month":"([%d-]+)",'
    .. '"overage":(%d),"admittedAt":(%d+),')
  if not runOf then
    local lease = cjson.decode(text)
    runOf, deadline, held, bucket, month = lease.run, lease.deadline, lease.tokens, lease.bucket, lease.month
    overage, admittedAt = lease.overage, lease.admittedAt
  end
  if tonumber(runOf) ~= tonumber(run) then return 'refused' end
  call('HDEL', KEYS[2], request)
  call('ZREM', KEYS[3], request)
else
  local ended = call('GET', KEYS[5])
  -- One that was released has no run, unless Redis was emptied in between.
  if ended and ended ~= 'released' then return ended == mark and 'settled' or 'refused' end
  if call('ZSCORE', KEYS[4], request) then return 'lost' end
end

correctCounters(KEYS[1], month, bucket, 0, tonumber(held), tonumber(tokens), tonumber(overage) == 1)
call('XADD', KEYS[6], '*', 'request', request, 'account', account, 'month', month, 'tokens', tokens, 'overage', overage, 'runs',
  run, 'admittedAt', admittedAt, 'settledAt', string.format('%d', now), 'report', report)
-- A clock that was put back must not have the mark kept for ever, nor one put ahead have it go at once.
local markMs = math.min(math.max(deadline - now, 0), dayMs) + lostLifeMs
call('SET', KEYS[5], mark, 'PX', string.format('%d', markMs))
return 'settled'
