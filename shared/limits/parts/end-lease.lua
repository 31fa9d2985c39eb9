-- A part of the scripts that end a lease (load-lua.ts), after counters.lua. It needs countersKey, leasesKey, leaseEndsKey and keptBytesKey.

-- Corrects the counters of one holder: what the lease has reserved is no longer reserved, and `chargedTokens` are charged instead, in the
-- month and the bucket that were charged (contract.md#n6-settling). `requests` is the change of the requests. Charges that have left the
-- window are not restored. A month that is not counted here is not started here: the next admission seeds it from the store and the outbox.
-- A field `:reservedTokens` alone marks a month of an account that missed usage, so that it does not start at 0 because last month is
-- counted. A key needs none: a month of it that starts at 0 is counted again at once (read-holders.lua).
local function correctHolder(key, lease, bucket, requests, chargedTokens)
  local call, format = redis.call, string.format
  local chargedField, reservedField = lease.month .. ':chargedTokens', lease.month .. ':reservedTokens'
  local window, chargedBefore, reservedBefore = unpack(call('HMGET', key, 'window', chargedField, reservedField))
  local more = chargedTokens - lease.reservedTokens

  local _, last = string.find(window or '', '[' .. bucket .. ',', 1, true)
  local sumsAt, ofAll, tokensOfAll = string.match(window or '', '%] ()(%-?%d+) (%-?%d+)$', -40)
  if last and sumsAt then
    local ofBucket, tokensOfBucket, rest = string.match(window, '^([^,]+),([^,]+)()', last + 1)
    window = format('%s%d,%d%s%d %d', string.sub(window, 1, last), ofBucket + requests, tokensOfBucket + more,
      string.sub(window, rest, sumsAt - 1), ofAll + requests, tokensOfAll + more)
  end
  if requests ~= 0 and bucket ~= 0 and tonumber(call('HGET', key, 'day')) == math.floor(lease.admittedAt / dayMs) then
    call('HINCRBY', key, 'dayRequests', requests)
  end

  if not chargedBefore then
    if last then call('HSET', key, 'window', window) end
    if key == countersKey and chargedTokens ~= 0 and call('EXISTS', key) == 1 then call('HSET', key, reservedField, 0) end
    return
  end
  -- Exact up to 2^53; no larger sum would be accepted.
  local chargedNow = format('%d', chargedBefore + chargedTokens)
  local reservedNow = format('%d', (reservedBefore or 0) - lease.reservedTokens)
  if last then
    call('HSET', key, 'window', window, chargedField, chargedNow, reservedField, reservedNow)
  else
    call('HSET', key, chargedField, chargedNow, reservedField, reservedNow)
  end
  if key == countersKey and lease.overage == 1 and chargedTokens ~= 0 then call('HINCRBY', key, lease.month .. ':overageTokens', chargedTokens) end
end

-- Removes a lease, corrects the counters of every holder that it was charged to, and gives back what it has reserved for its answer.
local function endLease(request, lease, keyCountersKey, requests, chargedTokens)
  redis.call('HDEL', leasesKey, request)
  redis.call('ZREM', leaseEndsKey, request)
  correctHolder(countersKey, lease, lease.bucket, requests, chargedTokens)
  if lease.key then correctHolder(keyCountersKey, lease, lease.isKeyMonthOnly and 0 or lease.bucket, requests, chargedTokens) end
  if lease.keep then
    -- include kept-bytes
    countReservedBytes(countersKey, keptBytesKey, lease.deadline, -lease.keep)
  end
end
