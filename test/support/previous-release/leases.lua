-- A part of the scripts that look after leases; it stands behind standing.lua (read-lua.ts).
-- A lease is JSON: `state` (admitted, started, streaming); `run` of its latest start, how often its job was `taken` then, and
-- the `answer` to that; `tokens` that it holds; `bucket` (when that was begun), `day` and `month` that it was charged to;
-- `overage`; admittedAt, startBy, deadline; and `report`, what its usage record says should nobody end it.
local lostLifeMs = 3600000

local function readLease(leasesKey, id)
  local text = redis.call('HGET', leasesKey, id)
  return text and cjson.decode(text) or nil
end

local function removeLease(leasesKey, endsKey, id)
  redis.call('HDEL', leasesKey, id)
  redis.call('ZREM', endsKey, id)
end

local function appendUsage(outboxKey, event)
  redis.call('XADD', outboxKey, '*', 'request', event.request, 'account', event.account, 'month', event.month, 'tokens',
    event.tokens, 'overage', event.overage, 'runs', event.runs, 'admittedAt', event.admittedAt, 'settledAt',
    event.settledAt, 'report', event.report)
end

-- Ends leases past their time, at most so many: what they hold is given back, nothing is charged, and their records say that
-- they were lost. Returns how many.
local function endLostLeases(keys, account, now, atMost)
  local ids = redis.call('ZRANGEBYSCORE', keys.ends, '-inf', now, 'LIMIT', 0, atMost)
  for _, id in ipairs(ids) do
    local lease = readLease(keys.leases, id)
    removeLease(keys.leases, keys.ends, id)
    if lease then
      correctWindow(keys.standing, lease.bucket, 0, -lease.tokens)
      correctMonth(keys.standing, lease.month, 0, -lease.tokens, false)
      appendUsage(keys.outbox, {
        request = id, account = account, month = lease.month, tokens = 0, overage = lease.overage, runs = lease.run,
        admittedAt = lease.admittedAt, settledAt = now, report = lease.report,
      })
      -- Counted from now: where nobody looked for longer, whoever holds the request may still come to settle it.
      redis.call('ZADD', keys.lost, math.max(lease.deadline, now) + lostLifeMs, id)
    end
  end
  if #ids > 0 then
    redis.call('ZREMRANGEBYSCORE', keys.lost, '-inf', now)
    redis.call('PEXPIRE', keys.lost, dayMs + 2 * lostLifeMs)
  end
  return #ids
end
