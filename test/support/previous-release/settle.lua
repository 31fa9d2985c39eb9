#!lua flags=allow-oom
local clock = redis.call('TIME')
-- Ends a request: its reservation is replaced by what it has used, in the bucket and the month that were charged, its lease
-- ends, and its usage goes into the outbox; once, however often this is called. Where the lease is not known (Redis was
-- emptied) the usage is kept all the same. Runs also when Redis is out of memory.
-- KEYS[1]  hash: the account's standing (standing.lua)
-- KEYS[2]  hash: its leases (leases.lua)
-- KEYS[3]  sorted set: when they end
-- KEYS[4]  sorted set: its requests that were lost
-- KEYS[5]  string: how this request was ended
-- KEYS[6]  stream: the partition's outbox
-- ARGV     account; request; run that settles; settler, an id of whoever does; tokens to charge; report for the usage record,
--          JSON; and for a lease that is not known: month, overage (0 or 1), and when it was admitted and is over,
--          milliseconds of this clock
-- returns  'settled', also where the same settler has done so before; 'refused': another run's, or ended before
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local account, request, run, settler, tokens, report, month, overage, admittedAt, deadline = unpack(ARGV)
tokens = tonumber(tokens)

local ended, mark = redis.call('GET', KEYS[5]), 'settled ' .. run .. ' ' .. settler
-- One that was released has no run, unless Redis was emptied in between.
if ended and ended ~= 'released' then return ended == mark and 'settled' or 'refused' end
if redis.call('ZSCORE', KEYS[4], request) then return 'refused' end

local lease = readLease(KEYS[2], request)
if lease then
  if lease.run ~= tonumber(run) then return 'refused' end
  removeLease(KEYS[2], KEYS[3], request)
  correctWindow(KEYS[1], lease.bucket, 0, tokens - lease.tokens)
  month, overage, admittedAt, deadline = lease.month, lease.overage, lease.admittedAt, lease.deadline
end
correctMonth(KEYS[1], month, tokens, lease and -lease.tokens or 0, tonumber(overage) == 1)
appendUsage(KEYS[6], {
  request = request, account = account, month = month, tokens = tokens, overage = overage, runs = run,
  admittedAt = admittedAt, settledAt = now, report = report,
})
-- A clock that was put back must not have the mark kept for ever, nor one put ahead have it go at once.
redis.call('SET', KEYS[5], mark, 'PX', math.min(math.max(deadline - now, 0), dayMs) + lostLifeMs)
return 'settled'
