-- A part of the scripts that change what an account keeps for repeats (contract.md#ho1-budgets-of-kept-answers, load-lua.ts), after counters.lua.
-- The counters of an account have `keeping`, the bytes that its leases have reserved for answers, each lease as its `keep` (lease.lua), and
-- `kept`, those of the answers in its sorted set of kept answers: `request bytes`, by when they expire. Such a set expires with its last answer,
-- without it nothing is kept. What all accounts of a partition keep and reserve is summed by the minute in which it expires at the latest: sums
-- of the past count no more, so what no process has ended leaves automatically.
local function countKeptBytes(keptBytesKey, expiresAt, bytes)
  local field = string.format('%d', expiresAt / 60000)
  if redis.call('HINCRBY', keptBytesKey, field, bytes) <= 0 then redis.call('HDEL', keptBytesKey, field) end
  redis.call('PEXPIRE', keptBytesKey, 2 * dayMs)
end

-- What a lease has reserved is free when it ends. Leases end within two minutes of their deadline.
local function countReservedBytes(countersKey, keptBytesKey, deadline, bytes)
  redis.call('HINCRBY', countersKey, 'keeping', bytes)
  if keptBytesKey then countKeptBytes(keptBytesKey, deadline + 2 * windowMs, bytes) end
end
