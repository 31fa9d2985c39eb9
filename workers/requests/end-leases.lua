#!lua flags=allow-oom
local clock = redis.call('TIME')
-- Expires the leases of one account that are past their time: their reservations are released, nothing is charged, and their usage
-- records say that they were lost. Records when to check the account again. When it has no leases and its last minute is over, its
-- counters are rewritten to use less memory. Runs also when Redis is out of memory.
-- keys     keyCountersKeys: the limit counters of the further keys in keyIds
-- args     account; leaseHolder, its name in leaseHoldersKey; atMost: max leases expired by this call; lifeMsMax: longer than any lease can
--          live; dueBy: leases that expire later than this stay; lookAgainMs: max time until the account is checked again while it holds
--          leases; keyIds of further keys
-- returns  JSON: ended: how many were expired, `atMost` if there may be more; missing: the further keys of leases that are due and stay,
--          because their counters were not in keyCountersKeys: call it again with them. Left out if there is none
-- include ../../shared/limits/parts/counters
-- include ../../shared/limits/parts/lease
-- include ../../shared/limits/parts/end-lease
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
atMost = tonumber(atMost)
local countersOf = {}
for index, id in ipairs(keyIds) do countersOf[id] = keyCountersKeys[index] end

-- Leases of a clock that has since been set back: without this they would stay until that time comes again.
for _, id in ipairs(redis.call('ZRANGEBYSCORE', leaseEndsKey, '(' .. now + lifeMsMax + windowMs, '+inf', 'LIMIT', 0, atMost)) do
  redis.call('ZADD', leaseEndsKey, now + lifeMsMax, id)
end

local result, missing = {ended = 0}, {}
for _, id in ipairs(redis.call('ZRANGEBYSCORE', leaseEndsKey, '-inf', math.min(now, dueBy), 'LIMIT', 0, atMost)) do
  local text = redis.call('HGET', leasesKey, id)
  local lease = text and unpackLease(text)
  if lease and lease.key and not countersOf[lease.key] then
    missing[#missing + 1] = lease.key
    result.missing = missing
  else
    result.ended = result.ended + 1
    if not lease then redis.call('ZREM', leaseEndsKey, id)
    else
      endLease(id, lease, lease.key and countersOf[lease.key], 0, 0)
      redis.call('XADD', outboxKey, '*', 'request', id, 'account', account, 'month', lease.month, 'chargedTokens', 0, 'overage',
        lease.overage, 'runs', lease.run, 'admittedAt', lease.admittedAt, 'settledAt', now, 'report', lease.report)
      -- From now on: after a long time without a check, the worker that has the request may still settle it.
      redis.call('ZADD', lostRequestsKey, math.max(lease.deadline, now) + lostLifeMs, id)
    end
  end
end
if result.ended > 0 then
  redis.call('ZREMRANGEBYSCORE', lostRequestsKey, '-inf', now)
  redis.call('PEXPIRE', lostRequestsKey, dayMs + 2 * lostLifeMs)
end

local first = redis.call('ZRANGE', leaseEndsKey, 0, 0, 'WITHSCORES')
if first[2] then
  redis.call('ZADD', leaseHoldersKey, math.min(tonumber(first[2]), now + lookAgainMs), leaseHolder)
  return cjson.encode(result)
end

-- Lines of batches are charged to no minute. A charge has to stay for a second minute, in which the clock may be set back. A charge
-- that is further ahead than that does not count.
local window = leaseHolder == account and redis.call('HGET', countersKey, 'window')
local chargedAt = window and tonumber(string.match(window, '(%d+)%]%]') or 0)
if chargedAt and chargedAt < now + windowMs and chargedAt + 2 * windowMs > now then
  redis.call('ZADD', leaseHoldersKey, chargedAt + 2 * windowMs, leaseHolder)
  return cjson.encode(result)
end
redis.call('ZREM', leaseHoldersKey, leaseHolder)
if window then
  -- A hash that has held a long value uses 670 bytes or more, until it is written again: then 170 (decisions.md#small-counters-at-rest).
  local kept, lifeMs = {}, redis.call('PTTL', countersKey)
  local fields = redis.call('HGETALL', countersKey)
  for index = 1, #fields, 2 do
    if fields[index] ~= 'window' then kept[#kept + 1], kept[#kept + 2] = fields[index], fields[index + 1] end
  end
  redis.call('DEL', countersKey)
  if kept[1] then redis.call('HSET', countersKey, unpack(kept)) end
  if lifeMs > 0 then redis.call('PEXPIRE', countersKey, lifeMs) end
end
return cjson.encode(result)
