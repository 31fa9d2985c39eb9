-- A part of the scripts that refund a charge (load-lua.ts); it is included after counters.lua.
-- `held` tokens are no longer reserved, and `used` tokens are used instead, in the month and the bucket that were charged
-- (contract.md#n6-settling). `requests` is the change of the bucket's requests. Charges that have left the window are not restored. A month
-- that is not counted here is not started here: the next admission seeds it from the store and the outbox. A field `:reserved` alone marks
-- a month that missed usage, so that it does not start at 0 because last month is counted.
local function correctCounters(countersKey, month, bucket, requests, held, used, isOverage)
  local call, format = redis.call, string.format
  local usedField, reservedField = month .. ':used', month .. ':reserved'
  local window, minuteTokens, usedBefore, reservedBefore =
    unpack(call('HMGET', countersKey, 'window', 'minuteTokens', usedField, reservedField))

  local _, last = string.find(window or '', '[' .. bucket .. ',', 1, true)
  if last then
    local ofBucket, tokensOfBucket, rest = string.match(window, '^([^,]+),([^,]+)()', last + 1)
    window = format('%s%d,%d%s', string.sub(window, 1, last), ofBucket + requests, tokensOfBucket + used - held,
      string.sub(window, rest))
    if requests ~= 0 then call('HINCRBY', countersKey, 'minuteRequests', requests) end
    minuteTokens = format('%d', (minuteTokens or 0) + used - held)
  end

  if not usedBefore then
    if last then call('HSET', countersKey, 'window', window, 'minuteTokens', minuteTokens) end
    if used ~= 0 and call('EXISTS', countersKey) == 1 then call('HSET', countersKey, reservedField, 0) end
    return
  end
  -- Exact up to 2^53; no larger sum would be accepted.
  local usedNow, reservedNow = format('%d', usedBefore + used), format('%d', (reservedBefore or 0) - held)
  if last then
    call('HSET', countersKey, 'window', window, 'minuteTokens', minuteTokens, usedField, usedNow, reservedField, reservedNow)
  else
    call('HSET', countersKey, usedField, usedNow, reservedField, reservedNow)
  end
  if isOverage and used ~= 0 then call('HINCRBY', countersKey, month .. ':overage', used) end
end
