#!lua
local clock = redis.call('TIME')
-- Decides whether a request is admitted, and charges it; all of it or nothing. Its caller has to be the one that the
-- account's version stands for, and no limit may be passed by it. The same request asking twice is charged once.
-- The version is a copy of the store's. It may be missing; it is never one that was overtaken, because whoever changes the
-- account deletes it first (ingress/revocation).
-- KEYS[1]   string: the account's version
-- KEYS[2]   string: fill token, under which the store is read in order to fill a missing version
-- KEYS[3]   sorted set: changes to the account under way, by when their marks end, milliseconds of this clock
-- KEYS[4]   hash: the account's standing (standing.lua)
-- KEYS[5]   hash: its leases in the lane (leases.lua)
-- KEYS[6]   sorted set: when they end
-- KEYS[7]   sorted set: its requests that were lost
-- KEYS[8]   string: how this request was ended
-- KEYS[9]   sorted set: who holds leases in the partition
-- KEYS[10]  stream: the partition's outbox
-- ARGV      account; version of the caller at hand, -1 where there is none; `known`, or `read` from the store after this
--           request was told to; token: what the answer `stale` came with, for `known` an id of this request;
--           mode: `admit`, `stand` (look at the standing), `look` (at the version only);
--           versionLifeMs, how long a version stands after it was last renewed, which use does past half of that; readLifeMs,
--           longer than reading the store may take;
--           and for `admit`: request; its report should it be lost, JSON; tokens to reserve; the limits, -1 for none:
--           requests and tokens a minute, requests a day, requests at once, tokens this month without top-ups;
--           month (YYYY-MM) of the latest top-ups and their tokens; 1 if overage is on; queueMs, requestMs, graceMs: until
--           the job's first start, for the whole request, and what a lease lives past either;
--           outboxLengthMax; lostAtMost: leases past their time to end in this call; holder: the account's name in KEYS[9];
--           1 where it counts against the minute and the day, 0 for a line of a batch
-- returns   {'current', now}: the caller stands (mode `look`)
--           {'stale', token}: read the caller from the store, then call again with `read` and this token
--           {'cold', month}: the month is not counted here; seed it, then call again
--           {'ended'}: this request was ended before
--           {'stands', standing}, {'full', standing}: the outbox is too long, {'refused', limit, waitMs, standing} or
--           {'admitted', admittedAt, startBy, deadline, overage, standing}, with the standing after that:
--           {now, month, used, reserved, overage, requests and tokens of the last minute, resetMs until they have all left,
--           requests of the day, leases that were lost}
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local account, version, how, token, mode, versionLifeMs, readLifeMs = unpack(ARGV, 1, 7)

local function callerStands()
  -- A mark that ends later than any mark could was set by a clock that has since been put back.
  local changing = redis.call('ZCOUNT', KEYS[3], '(' .. now, now + 60000) > 0
  if how == 'read' then
    -- Only a reading that no change has come between may fill: each change deletes the token, before and after.
    if not changing and redis.call('GET', KEYS[2]) == token then
      redis.call('SET', KEYS[1], version, 'PX', versionLifeMs)
      redis.call('DEL', KEYS[2])
    end
    return true
  end
  if changing then return false end
  if redis.call('GET', KEYS[1]) == version then
    -- Not with each use: reading how long it has left costs less than writing that anew.
    if redis.call('PTTL', KEYS[1]) < versionLifeMs / 2 then redis.call('PEXPIRE', KEYS[1], versionLifeMs) end
    return true
  end
  -- All who read at once share one token, or those who come while another reads would keep each other from ever filling.
  -- Who joins a token began to read after it was set, like whoever set it.
  local standing = redis.call('GET', KEYS[2])
  if not standing then redis.call('SET', KEYS[2], token, 'PX', readLifeMs) end
  token = standing or token
  return false
end

if not callerStands() then return {'stale', token} end
if mode == 'look' then return {'current', now} end

local request, report, tokens = ARGV[8], ARGV[9], tonumber(ARGV[10])
local perMinute, tokensPerMinute, perDay, atOnce, perMonth = unpack(ARGV, 11, 15)
local topUpMonth, topUpTokens, overageOn, queueMs, requestMs, graceMs, outboxMax, lostAtMost = unpack(ARGV, 16, 23)
local holder, countsNow = ARGV[24], ARGV[25] == '1'
local keys = {standing = KEYS[4], leases = KEYS[5], ends = KEYS[6], lost = KEYS[7], outbox = KEYS[10]}

-- The request's own lease may be one of these, so whether it is over can only be told after.
local lostNow = endLostLeases(keys, account, now, tonumber(lostAtMost))
if mode == 'admit' and (redis.call('EXISTS', KEYS[8]) == 1 or redis.call('ZSCORE', keys.lost, request)) then
  return {'ended'}
end

-- A step back of the clock by less than a minute is waited out at the last time that was seen; what was charged further
-- ahead than that is no time to wait for.
local at, window = now, {}
local stored = redis.call('HMGET', keys.standing, 'window', 'day', 'dayRequests')
for _, bucket in ipairs(readWindow(stored[1])) do
  if bucket[4] < now + windowMs then
    window[#window + 1] = bucket
    at = math.max(at, bucket[4])
  end
end
while window[1] and window[1][4] <= at - windowMs do table.remove(window, 1) end

local monthNumber, day = monthAt(at), math.floor(at / dayMs)
local month, lastMonth = monthName(monthNumber), monthName(monthNumber - 1)
local counted = redis.call('HMGET', keys.standing, month .. ':used', month .. ':reserved', month .. ':overage',
  lastMonth .. ':used')
-- Last month is still counted, so nothing of this one can have been missed.
local isNewMonth = not counted[1] and not counted[2] and counted[4]
if not counted[1] and not isNewMonth then return {'cold', month} end

local used, reserved, overageUsed = tonumber(counted[1] or 0), tonumber(counted[2] or 0), tonumber(counted[3] or 0)
local dayRequests = tonumber(stored[2]) == day and tonumber(stored[3]) or 0
local minuteRequests, minuteTokens = 0, 0
for _, bucket in ipairs(window) do
  minuteRequests, minuteTokens = minuteRequests + bucket[2], minuteTokens + bucket[3]
end

local function standingNow()
  local latest = window[#window]
  local resetMs = latest and latest[4] + windowMs - now or 0
  return {now, month, used, reserved, overageUsed, minuteRequests, minuteTokens, resetMs, dayRequests, lostNow}
end

if mode == 'stand' then return {'stands', standingNow()} end

local function admitted(lease)
  return {'admitted', lease.admittedAt, lease.startBy, lease.deadline, lease.overage, standingNow()}
end

local held = readLease(keys.leases, request)
if held then return admitted(held) end
if redis.call('XLEN', keys.outbox) >= tonumber(outboxMax) then return {'full', standingNow()} end

-- How long until so much has left the window that what is asked for fits, or nil if it fits now.
local function waitFor(limit, charged, asked, column)
  local over = charged + asked - limit
  if limit < 0 or over <= 0 then return nil end
  for _, bucket in ipairs(window) do
    over = over - bucket[column]
    if over <= 0 then return bucket[4] + windowMs - now end
  end
  return windowMs
end

-- A quota that is spent is said before anything else, for no wait lifts it; of the others the longest wait.
local limited, waitMs
local function refuseBy(limit, ms)
  if ms and (not waitMs or ms > waitMs) then limited, waitMs = limit, ms end
end

perMonth = tonumber(perMonth)
local allowance = perMonth + (topUpMonth == month and tonumber(topUpTokens) or 0)
local isSpent = perMonth >= 0 and used + reserved >= allowance
if isSpent and overageOn ~= '1' then return {'refused', 'quota', 0, standingNow()} end

refuseBy('requests', waitFor(tonumber(perMinute), minuteRequests, 1, 2))
refuseBy('tokens', waitFor(tonumber(tokensPerMinute), minuteTokens, tokens, 3))
perDay, atOnce = tonumber(perDay), tonumber(atOnce)
if perDay >= 0 and dayRequests >= perDay then refuseBy('day', (day + 1) * dayMs - now) end
if atOnce >= 0 and redis.call('ZCOUNT', keys.ends, '(' .. now, '+inf') >= atOnce then refuseBy('concurrency', 1000) end
if limited then return {'refused', limited, waitMs, standingNow()} end

-- What is charged to no bucket and no day is given back to none.
local bucket, chargedDay, isNewBucket = 0, 0, not countsNow
if countsNow then
  local latest = window[#window]
  if not latest or math.floor(latest[1] / bucketMs) ~= math.floor(at / bucketMs) then
    latest = {at, 0, 0, at}
    window[#window + 1] = latest
    isNewBucket = true
  end
  latest[2], latest[3], latest[4] = latest[2] + 1, latest[3] + tokens, at
  minuteRequests, minuteTokens = minuteRequests + 1, minuteTokens + tokens
  dayRequests, bucket, chargedDay = dayRequests + 1, latest[1], day
  redis.call('HSET', keys.standing, 'window', cjson.encode(window), 'day', day, 'dayRequests', dayRequests)
end
reserved = reserved + tokens
redis.call('HSET', keys.standing, month .. ':reserved', reserved)
if isNewMonth then
  redis.call('HSET', keys.standing, month .. ':used', 0, month .. ':overage', 0)
  for _, field in ipairs(redis.call('HKEYS', keys.standing)) do
    local counts = string.match(field, '^(%d+%-%d+):')
    if counts and counts < lastMonth then redis.call('HDEL', keys.standing, field) end
  end
end
if isNewBucket then redis.call('PEXPIRE', keys.standing, standingLifeMs) end

local lease = {
  state = 'admitted', run = 0, tokens = tokens, bucket = bucket, day = chargedDay, month = month, overage = isSpent and 1 or 0,
  admittedAt = at, startBy = at + queueMs, deadline = at + requestMs, report = report,
}
local endsAt = at + queueMs + graceMs
redis.call('HSET', keys.leases, request, cjson.encode(lease))
redis.call('ZADD', keys.ends, endsAt, request)
-- As long as the month that they hold tokens of: a lease that went by itself would leave those reserved, and no record. Once a
-- bucket is enough, but for keys that have just come into being.
if isNewBucket or redis.call('HLEN', keys.leases) == 1 then
  redis.call('PEXPIRE', keys.leases, standingLifeMs)
  redis.call('PEXPIRE', keys.ends, standingLifeMs)
end
redis.call('ZADD', KEYS[9], 'LT', endsAt, holder)
if isNewBucket or redis.call('ZCARD', KEYS[9]) == 1 then redis.call('PEXPIRE', KEYS[9], standingLifeMs) end
return admitted(lease)
