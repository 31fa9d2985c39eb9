-- A part of the scripts that end leases past their time (read-lua.ts); it stands behind correct-standing.lua and leases.lua.
-- At most so many: what they hold is given back, nothing is charged, and their records say that they were lost. Returns how
-- many.
local function endLostLeases(keys, account, now, atMost)
  local ids = redis.call('ZRANGEBYSCORE', keys.ends, '-inf', now, 'LIMIT', 0, atMost)
  for _, id in ipairs(ids) do
    local text = redis.call('HGET', keys.leases, id)
    redis.call('HDEL', keys.leases, id)
    redis.call('ZREM', keys.ends, id)
    if text then
      local lease = cjson.decode(text)
      correctStanding(keys.standing, lease.month, lease.bucket, 0, lease.tokens, 0, false)
      redis.call('XADD', keys.outbox, '*', 'request', id, 'account', account, 'month', lease.month, 'tokens', 0, 'overage',
        lease.overage, 'runs', lease.run, 'admittedAt', lease.admittedAt, 'settledAt', now, 'report', lease.report)
      -- Counted from now: if no one looked for longer, the worker that has the request may still settle it.
      redis.call('ZADD', keys.lost, math.max(lease.deadline, now) + lostLifeMs, id)
    end
  end
  if #ids > 0 then
    redis.call('ZREMRANGEBYSCORE', keys.lost, '-inf', now)
    redis.call('PEXPIRE', keys.lost, dayMs + 2 * lostLifeMs)
  end
  return #ids
end
