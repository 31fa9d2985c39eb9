#!lua
local clock = redis.call('TIME')
-- Decides whether a request is admitted, and charges it: all of it or nothing (contract.md#e2-admission). The caller that was read must
-- match the account's version (check-version.lua), and the request must not exceed a limit of any holder (counters.lua). The same request is
-- charged only once, except that a repeat of a claim is counted each time (contract.md#m3-idempotent-scripts).
-- keys     those of the claim of an idempotency key are left out if the request has none
-- args     of the parts; request; report: its usage record in case it is lost, JSON; reservedTokens; the limits of the account, left out for
--          none: requestsPerMinute, tokensPerMinute, requestsPerDay, requestsAtOnce, tokensPerMonth without top-ups, and overageMax, the most
--          tokens of this month beyond its allowance; topUpMonth (YYYY-MM) and topUpTokens of the latest top-ups; leaseHolder: the account's name
--          in leaseHoldersKey; isCounted: the request counts against the minute and the day, as a line of a batch does not; queueMs: time until
--          the job's first start; bodyMarks of an idempotency key, separated by spaces, of which its claim gets the first, and keepBytes to
--          reserve for its answer; keyEndsAt: when the caller's key ends; and the limits of that key
-- returns  words separated by spaces, because a list would cost Redis 5 µs more: `stale` token, `cold` month or
--          `cold` month key, `expired`: the key has ended, `ended`: this request was already ended,
--          `repeated` how request counters (find-claim.lua), `full` counters: the outbox is too long, `refused` limit waitMs counters, or
--          `admitted` admission counters (admission.ts). The counters are those after the call (read-holders.lua)
-- include parts/counters
-- include parts/lease
local call, floor, format, match = redis.call, math.floor, string.format, string.match
local now = clock[1] * 1000 + floor(clock[2] / 1000)

-- include parts/check-version
if keyEndsAt and now >= tonumber(keyEndsAt) then return 'expired' end

if call('EXISTS', endedRequestKey, lostRequestsKey) > 0
  and (call('EXISTS', endedRequestKey) == 1 or call('ZSCORE', lostRequestsKey, request)) then
  return 'ended'
end

-- include parts/read-holders
-- include parts/find-claim

local function admitted(lease, inFlight)
  lease.inFlight, lease.keep = inFlight, lease.keep or 0
  return withCounters(format('admitted $admission', valuesOf.admission(lease)))
end

-- A repeat that counts is a request of the minute and the day. It uses nothing else.
reservedTokens = repeated and 0 or tonumber(reservedTokens)
local isSpent, isOverDay, isOverMinute, spentQuota = false, false, false, nil
local isFull = not repeated and call('XLEN', outboxKey) >= outboxLengthMax
for index = 1, #holders do
  local holder = holders[index]
  local perMinute, perMinuteTokens, perDay, perMonth, overage = requestsPerMinute, tokensPerMinute, requestsPerDay, nil, overageMax
  if index == 1 then perMonth = tokensPerMonth and tokensPerMonth + (topUpMonth == month and topUpTokens or 0)
  else perMinute, perMinuteTokens, perDay, perMonth, overage = keyRequestsPerMinute, keyTokensPerMinute, nil, tonumber(keyTokensPerMonth), 0 end
  -- A request charged to no bucket and no day is not refunded to one.
  if isCounted then
    if perMinute then holder.overRequests = holder.requests + 1 - perMinute end
    if perDay then isOverDay = holder.dayRequests - perDay >= 0 end
  end
  if not repeated then
    if isCounted and perMinuteTokens then holder.overTokens = holder.tokens + reservedTokens - perMinuteTokens end
    local spent = holder.chargedTokens + holder.reservedTokens
    if perMonth and spent >= perMonth then
      isSpent = true
      -- Reserved tokens may become overage, and a top-up does not take back what was counted as overage before it.
      local isRefused = overage and (spent >= perMonth + overage or holder.overageTokens - overage >= 0)
      if isRefused then spentQuota = spentQuota or (index == 1 and 'quota' or 'key_quota') end
    end
  end
  isOverMinute = isOverMinute or holder.overRequests > 0 or holder.overTokens > 0
end
local leases = call('ZCARD', leaseEndsKey)
local isOverAtOnce = not repeated and requestsAtOnce and leases - requestsAtOnce >= 0

-- How many bytes the request reserves for its answer, by how many its account would then exceed its budget, and how many all accounts may
-- still reserve, nil for no bound (contract.md#ho1-budgets-of-kept-answers).
local keep, keeping, keptOver, keptRoom = 0, 0, 0, nil
if claimKey and not repeated then
  keepBytes = tonumber(keepBytes)
  local kept, reservedNow = unpack(call('HMGET', countersKey, 'kept', 'keeping'))
  keeping = tonumber(reservedNow or 0)
  if kept then
    -- A claim counts for claimBytes at least. So removing this many expired answers makes room for any reservation: the decision is exact.
    local expired, freed = call('ZRANGEBYSCORE', keptAnswersKey, '-inf', now, 'LIMIT', 0, keepBytes / claimBytes), 0
    if expired[1] then
      for _, answer in ipairs(expired) do freed = freed + match(answer, '%d+$') end
      call('ZREM', keptAnswersKey, unpack(expired))
      kept = call('HINCRBY', countersKey, 'kept', -freed)
    end
    if call('EXISTS', keptAnswersKey) == 0 then
      call('HDEL', countersKey, 'kept')
      kept = 0
    end
  end
  if keeping ~= 0 and leases == 0 then
    call('HDEL', countersKey, 'keeping')
    keeping = 0
  end
  keptRoom = tonumber(call('GET', keptRoomKey) or nil)
  keep = (not keptRoom or keptRoom >= keepBytes) and keepBytes or claimBytes
  keptOver = (kept or 0) + keeping + keep - keptBytesMax
end

if spentQuota or isOverMinute or isOverDay or isOverAtOnce or isFull or keptOver > 0 then
  -- A request that was already admitted is not refused when it is repeated.
  local known = call('HGET', leasesKey, request)
  if known then return admitted(unpackLease(known), leases) end
  if isFull then return withCounters('full') end
  -- A spent quota is reported first, because no wait lifts it. Of the other limits, the one with the longest wait is reported.
  if spentQuota then return withCounters('refused ' .. spentQuota .. ' 0') end

  local limited, waitMs = nil, 0
  local function refuseBy(limit, ms)
    if ms > waitMs then limited, waitMs = limit, ms end
  end
  for index, holder in ipairs(holders) do
    -- Time until enough has left the window for the request to fit.
    local function waitFor(over, column)
      for _, bucket in ipairs(holder.window and cjson.decode(match(holder.window, '^[^ ]+')) or {}) do
        over = over - bucket[column]
        if over <= 0 then return bucket[4] + windowMs - now end
      end
      return windowMs
    end
    local prefix = index == 1 and '' or 'key_'
    if holder.overRequests > 0 then refuseBy(prefix .. 'requests', waitFor(holder.overRequests, 2)) end
    if holder.overTokens > 0 then refuseBy(prefix .. 'tokens', waitFor(holder.overTokens, 3)) end
  end
  if isOverDay then refuseBy('day', (floor(at / dayMs) + 1) * dayMs - now) end
  if isOverAtOnce then refuseBy('concurrency', 1000) end
  if keptOver > 0 then
    -- Nothing is known of when requests that run give back what they have reserved. Without them, until enough answers have expired.
    local answers = keeping == 0 and call('ZRANGE', keptAnswersKey, 0, keepBytes / claimBytes - 1, 'WITHSCORES') or {}
    local wait = 1000
    for index = 1, #answers, 2 do
      if keptOver > 0 then wait = answers[index + 1] - now end
      keptOver = keptOver - match(answers[index], '%d+$')
    end
    -- More may have expired than was removed; then the next request finds room.
    refuseBy('idempotency', math.max(wait, 1))
  end
  return withCounters(format('refused %s %d', limited, waitMs))
end

-- Numbers become text here: Redis takes 0.7 µs for each.
local atText, dayText = format('%d', at), format('%d', at / dayMs)
local begun = holders[1].begun
local bucket = isCounted and (begun and begun - begun % bucketMs == at - at % bucketMs and begun or atText) or '0'
local startBy = at + queueMs
local lease = {state = 'admitted', run = 0, startBy = startBy, deadline = at + requestMs, reservedTokens = reservedTokens, bucket = tonumber(bucket),
  month = month, overage = isSpent and 1 or 0, admittedAt = at,
  key = keyCountersKey and keyId, keep = keep > 0 and keep or nil, report = report}
local endsAt = startBy + graceMs
if not repeated then
  if call('HSETNX', leasesKey, request, packLease(lease)) == 0 then
    return admitted(unpackLease(call('HGET', leasesKey, request)), leases)
  end
  call('ZADD', leaseEndsKey, format('%d', endsAt), request)
end
if keep > 0 then
  -- include parts/kept-bytes
  call('DEL', claimKey)
  call('HSET', claimKey, 'request', request, 'body', match(bodyMarks, '^%S+'))
  call('PEXPIRE', claimKey, claimLifeMs)
  countReservedBytes(countersKey, keptBytesKey, lease.deadline, keep)
  if keptRoom then call('SET', keptRoomKey, keptRoom - keep, 'KEEPTTL') end
end

for index = 1, #holders do
  local holder, key, hasMonth, lifeMs = holders[index], countersKey, true, countersLifeMs
  if index == 2 then
    key, hasMonth, lifeMs = keyCountersKey, keyLimitedSince, keyLimitedSince and keyCountersLifeMs or 2 * windowMs
  end
  local window, isNewBucket, reserved = holder.window, not isCounted or holder.begun ~= bucket, holder.reservedTokens + reservedTokens
  if hasMonth then holder.reservedTokens = reserved end
  if isCounted then
    local requests, minuteTokens, dayRequests = holder.requests + 1, holder.tokens + reservedTokens, holder.dayRequests + 1
    holder.requests, holder.tokens, holder.dayRequests, holder.resetMs = requests, minuteTokens, dayRequests, at + windowMs - now
    if not isNewBucket then
      window = format('%s%d,%d,%s]] %d %d', string.sub(window, 1, holder.countsAt - 1), holder.ofBucket + 1,
        holder.tokensOfBucket + reservedTokens, atText, requests, minuteTokens)
    else
      window = format('%s[%s,1,%d,%s]] %d %d', window and match(window, '^(.+)%]') .. ',' or '[', bucket, reservedTokens, atText, requests, minuteTokens)
    end
    if hasMonth then
      call('HSET', key, 'window', window, 'day', dayText, 'dayRequests', format('%d', dayRequests), month .. ':reservedTokens', format('%d', reserved))
    else
      call('HSET', key, 'window', window, 'day', dayText, 'dayRequests', format('%d', dayRequests))
    end
  elseif hasMonth then
    call('HSET', key, month .. ':reservedTokens', format('%d', reserved))
  end
  if holder.isNewMonth then
    call('HSET', key, month .. ':chargedTokens', 0, month .. ':overageTokens', 0)
    local lastMonth = monthName(at, 1)
    for _, field in ipairs(call('HKEYS', key)) do
      local counted = match(field, '^(%d+%-%d+):')
      if counted and counted < lastMonth then call('HDEL', key, field) end
    end
  end
  -- Renewing once per bucket is enough.
  if isNewBucket then call('PEXPIRE', key, lifeMs) end
end

-- Leases live as long as the month that counts their tokens: if they expired first, the tokens would stay reserved without a usage record.
local isNewBucket = not isCounted or begun ~= bucket
if isNewBucket and call('PTTL', versionKey) < versionLifeMs / 2 then call('PEXPIRE', versionKey, versionLifeMs) end
if isNewBucket or leases == 0 then
  call('PEXPIRE', leasesKey, countersLifeMs)
  call('PEXPIRE', leaseEndsKey, countersLifeMs)
end
-- After its start, a lease may expire earlier than it would have as an admitted one. If the account has other leases, it is checked within
-- leaseLifeMs anyway.
if isNewBucket or leases == 0 or endsAt < now + leaseLifeMs then
  local isNewHolder = call('ZADD', leaseHoldersKey, 'LT', format('%d', math.min(endsAt, now + leaseLifeMs)), leaseHolder) == 1
  if isNewBucket or isNewHolder then call('PEXPIRE', leaseHoldersKey, countersLifeMs) end
end
return repeated and withCounters(repeated) or admitted(lease, leases + 1)
