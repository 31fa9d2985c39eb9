#!lua
local clock = redis.call('TIME')
-- Decides whether a request is admitted, and charges it: all of it or nothing (contract.md#e2-admission). The caller that was read must
-- match the account's version (check-version.lua), and the request must not exceed a limit. The same request is charged only once, except
-- that a repeat of a claim is counted each time (contract.md#m3-idempotent-scripts).
-- KEYS[1]   string: the account's version
-- KEYS[2]   string: fill token, under which the store is read to fill a missing version
-- KEYS[3]   sorted set: changes to the account in progress, by the time their marks expire, milliseconds of this clock
-- KEYS[4]   hash: the account's limit counters (counters.lua)
-- KEYS[5]   hash: its leases in the lane (leases.lua)
-- KEYS[6]   sorted set: when they expire
-- KEYS[7]   sorted set: its lost requests
-- KEYS[8]   string: how this request was ended
-- KEYS[9]   sorted set: the holders of leases in the partition
-- KEYS[10]  stream: the partition's outbox
-- KEYS[11]  hash: the claim of the request's idempotency key (parts/find-claim.lua); left out if it has none, as are the next three
-- KEYS[12]  sorted set: the answers that its account keeps (parts/kept-bytes.lua)
-- KEYS[13]  hash: the bytes that the partition keeps, by the minute in which they expire
-- KEYS[14]  string: how many bytes all accounts may still reserve; there is no bound without it
-- KEYS[15]  hash: the limit counters of the caller's key (parts/key-counters.lua), after the other keys; left out if that has no limits
-- constants versionLifeMs: life of a version after its last renewal; use renews it once half of that has passed; readLifeMs:
--           longer than a read of the store may take; requestMs, graceMs: time for the request in total, and how long a lease outlives
--           it or the time until the job's first start; claimLifeMs: life of a claim; leaseLifeMs: how often a
--           holder is checked; outboxLengthMax; repeatsFree: repeats of a claim that count for nothing; keptBytesMax: what an account may
--           keep; claimBytes: what a claim counts for at least
-- ARGV      version of the caller that was read, -1 for none; `known`, or `read` if it was read from the store after the
--           answer `stale`; token: the one in the answer `stale`, for `known` an id of this request;
--           request; its usage report in case it is lost, as a JSON string; tokens to reserve; the limits,
--           -1 for none: requests and tokens per minute, requests per day, requests at once, tokens this month without top-ups;
--           month (YYYY-MM) of the latest top-ups and their tokens; overage: the most tokens of this month beyond its allowance, 0 if
--           overage is off, -1 if it has no bound; holder: the account's name in KEYS[9];
--           1 if the request counts against the minute and the day, 0 for a line of a batch; queueMs: time until the job's first start; with KEYS[11]: the marks of its
--           body, separated by spaces, of which the claim gets the first, and the bytes to reserve for its answer, otherwise two empty
--           ones if more follows; for a key with an end or with limits: its id, and when it ends, -1 for never; with KEYS[12]: its limits, -1 for none: requests and tokens per
--           minute, tokens this month; and the month (YYYY-MM) since when it has had the last of these
-- returns   words separated by spaces, because a list would cost Redis 5 µs more: `stale` token, `cold` month or
--           `cold` month key, `expired`: the key has ended, `ended`: this request was already ended,
--           `repeated` how request counters (parts/find-claim.lua), `full` counters: the outbox is too long, `refused` limit waitMs counters, or
--           `admitted` admittedAt startBy deadline overage inFlight keep counters; inFlight: leases of the lane, including this one; keep: the
--           bytes that are reserved for its answer. The counters are those after the call (current-counters.lua, key-counters.lua)
-- include parts/counters
local call, floor, format, match = redis.call, math.floor, string.format, string.match
local now = clock[1] * 1000 + floor(clock[2] / 1000)
local versionKey, fillKey, changesKey, countersKey, leasesKey, endsKey, lostKey, endedKey, holdersKey, outboxKey = unpack(KEYS)
local version, how, token, request, report, tokens, perMinute, tokensPerMinute, perDay, atOnce, perMonth, topUpMonth,
  topUpTokens, overageMax, holder, counts, queueMs, bodyMarks, keepBytes, keyId, keyEndsAt, keyPerMinute, keyTokensPerMinute, keyPerMonth, keyLimitedSince = unpack(ARGV)
local claimKey, keyCountersKey = bodyMarks and bodyMarks ~= '' and KEYS[11], keyPerMonth and KEYS[#KEYS]
local keptAnswersKey, keptBytesKey, keptRoomKey = KEYS[12], KEYS[13], KEYS[14]

-- include parts/check-version
if keyId and keyEndsAt ~= '-1' and now >= tonumber(keyEndsAt) then return 'expired' end

if call('EXISTS', endedKey, lostKey) > 0
  and (call('EXISTS', endedKey) == 1 or call('ZSCORE', lostKey, request)) then
  return 'ended'
end

-- include parts/current-counters
-- include parts/key-counters
-- include parts/find-claim

local function admittedBefore(lease)
  lease = cjson.decode(lease)
  return withCounters(format('admitted %d %d %d %d %d %d', lease.admittedAt, lease.startBy, lease.deadline, lease.overage,
    call('ZCARD', endsKey), lease.keep or 0))
end

-- A repeat that counts is a request of the minute and the day. It uses nothing else.
if repeated then tokens, tokensPerMinute, atOnce, perMonth, keyTokensPerMinute = 0, '-1', '-1', '-1', '-1' end
tokens, perMonth, overageMax = tonumber(tokens), tonumber(perMonth), tonumber(overageMax)
-- A request charged to no bucket and no day is not refunded to one.
local isCounted = counts == '1'
local allowance = perMonth + (topUpMonth == month and topUpTokens or 0)
local isSpent = perMonth >= 0 and used + reserved >= allowance
-- Reserved tokens may become overage, and a top-up does not take back what was counted as overage before it.
local isOverageSpent = overageMax >= 0 and (used + reserved >= allowance + overageMax or overageUsed >= overageMax)
local isRefused = isSpent and isOverageSpent
local leases = call('ZCARD', endsKey)
local overRequests = perMinute ~= '-1' and minuteRequests + 1 - perMinute or 0
local overTokens = tokensPerMinute ~= '-1' and minuteTokens + tokens - tokensPerMinute or 0
local isOverDay = perDay ~= '-1' and dayRequests - perDay >= 0
local isOverAtOnce = atOnce ~= '-1' and leases - atOnce >= 0
local isFull = not repeated and call('XLEN', outboxKey) >= outboxLengthMax
local keep, keeping, keptOver, keptRoom = 0, 0, 0, nil
if claimKey and not repeated then
  -- include parts/reserve-answer
end
local isKeySpent, keyOverRequests, keyOverTokens = false, 0, 0
if keyCountersKey then
  isKeySpent = not repeated and keyPerMonth ~= '-1' and keyUsed + keyReserved >= tonumber(keyPerMonth)
  keyOverRequests = isCounted and keyPerMinute ~= '-1' and keyRequests + 1 - keyPerMinute or 0
  keyOverTokens = isCounted and keyTokensPerMinute ~= '-1' and keyTokens + tokens - keyTokensPerMinute or 0
end

if isFull or isRefused or overRequests > 0 or overTokens > 0 or isOverDay or isOverAtOnce or isKeySpent
  or keyOverRequests > 0 or keyOverTokens > 0 or keptOver > 0 then
  -- A request that was already admitted is not refused when it is repeated.
  local held = call('HGET', leasesKey, request)
  if held then return admittedBefore(held) end
  if isFull then return withCounters('full') end
  -- A spent quota is reported first, because no wait lifts it. Of the other limits, the one with the longest wait is reported.
  if isRefused then return withCounters('refused quota 0') end
  if isKeySpent then return withCounters('refused key_quota 0') end

  local limited, waitMs = nil, 0
  local function refuseBy(limit, ms)
    if ms > waitMs then limited, waitMs = limit, ms end
  end
  -- Time until enough has left the window for the request to fit.
  local function waitFor(over, column, buckets)
    for _, bucket in ipairs(buckets) do
      over = over - bucket[column]
      if over <= 0 then return bucket[4] + windowMs - now end
    end
    return windowMs
  end
  local buckets = window and cjson.decode(window) or {}
  if overRequests > 0 then refuseBy('requests', waitFor(overRequests, 2, buckets)) end
  if overTokens > 0 then refuseBy('tokens', waitFor(overTokens, 3, buckets)) end
  if keyOverRequests > 0 then refuseBy('key_requests', waitFor(keyOverRequests, 2, keyBuckets)) end
  if keyOverTokens > 0 then refuseBy('key_tokens', waitFor(keyOverTokens, 3, keyBuckets)) end
  if isOverDay then refuseBy('day', (day + 1) * dayMs - now) end
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
local atText = format('%d', at)
local isNewBucket = not isCounted or not window or floor(begun / bucketMs) ~= floor(at / bucketMs)
local bucket = isCounted and (isNewBucket and atText or begun) or '0'
local startBy, deadline, overage = at + tonumber(queueMs), at + requestMs, isSpent and 1 or 0
local lease = format('{"state":"admitted","run":0,"startBy":%d,"deadline":%d,"tokens":%d,"bucket":%s,"day":%d,"month":"%s",'
  .. '"overage":%d,"admittedAt":%s,%s%s"report":%s}', startBy, deadline, tokens, bucket, isCounted and day or 0, month, overage,
  atText, keyCountersKey and '"key":"' .. keyId .. '",' or '', keep > 0 and '"keep":' .. keep .. ',' or '', report)
local endsAt = startBy + graceMs
if not repeated then
  if call('HSETNX', leasesKey, request, lease) == 0 then return admittedBefore(call('HGET', leasesKey, request)) end
  call('ZADD', endsKey, format('%d', endsAt), request)
end
if keep > 0 then
  -- include parts/kept-bytes
  call('DEL', claimKey)
  call('HSET', claimKey, 'request', request, 'body', match(bodyMarks, '^%S+'))
  call('PEXPIRE', claimKey, claimLifeMs)
  countReservedBytes(countersKey, keptBytesKey, deadline, keep)
  if keptRoom then call('SET', keptRoomKey, keptRoom - keep, 'KEEPTTL') end
end

reserved = reserved + tokens
if isCounted then
  minuteRequests, minuteTokens, dayRequests = minuteRequests + 1, minuteTokens + tokens, dayRequests + 1
  resetMs = at + windowMs - now
  if not isNewBucket then
    window = format('%s%d,%d,%s]]', string.sub(window, 1, countsAt - 1), ofBucket + 1, tokensOfBucket + tokens, atText)
  else
    window = format('%s[%s,1,%d,%s]]', window and string.sub(window, 1, -2) .. ',' or ' [', atText, tokens, atText)
  end
  call('HSET', countersKey, 'window', window, 'minuteRequests', format('%d', minuteRequests), 'minuteTokens',
    format('%d', minuteTokens), 'day', format('%d', day), 'dayRequests', format('%d', dayRequests), reservedField,
    format('%d', reserved))
else
  call('HSET', countersKey, reservedField, format('%d', reserved))
end

if keyCountersKey then
  -- include parts/charge-key
end

if isNewMonth then
  call('HSET', countersKey, usedField, 0, overageField, 0)
  local lastMonth = monthName(at, 1)
  for _, field in ipairs(call('HKEYS', countersKey)) do
    local counted = match(field, '^(%d+%-%d+):')
    if counted and counted < lastMonth then call('HDEL', countersKey, field) end
  end
end

-- Leases live as long as the month that counts their tokens: if they expired first, the tokens would stay reserved without a usage record.
-- Renewing once per bucket is enough, except for keys that were just created.
if isNewBucket then
  call('PEXPIRE', countersKey, countersLifeMs)
  -- include parts/renew-version
end
if isNewBucket or leases == 0 then
  call('PEXPIRE', leasesKey, countersLifeMs)
  call('PEXPIRE', endsKey, countersLifeMs)
end
-- After its start, a lease may expire earlier than it would have as an admitted one.
local isNewHolder = call('ZADD', holdersKey, 'LT', format('%d', math.min(endsAt, now + leaseLifeMs)), holder) == 1
if isNewBucket or isNewHolder then call('PEXPIRE', holdersKey, countersLifeMs) end
return withCounters(repeated or format('admitted %s %d %d %d %d %d', atText, startBy, deadline, overage, leases + 1, keep))
