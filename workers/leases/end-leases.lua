#!lua flags=allow-oom
local clock = redis.call('TIME')
-- Expires the leases of one account that are past their time: their reservations are released, nothing is charged, and their usage
-- records say that they were lost. Records when to check the account again. When it has no leases and its last minute is over, its
-- counters are rewritten to use less memory. Runs also when Redis is out of memory.
-- KEYS[1]  hash: the account's limit counters (counters.lua)
-- KEYS[2]  hash: its leases (leases.lua)
-- KEYS[3]  sorted set: when they expire
-- KEYS[4]  sorted set: its requests that were lost
-- KEYS[5]  sorted set: the holders of leases in the partition
-- KEYS[6]  stream: the partition's outbox
-- KEYS[7]  hash: the bytes that the partition keeps, by the minute in which they expire (kept-bytes.lua)
-- KEYS[8…]  hashes: the limit counters of the further keys in ARGV[7…] (key-counters.lua)
-- ARGV     account; holder, its name in KEYS[5]; atMost: max leases expired by this call; lifeMsMax: longer than any lease can live;
--          dueBy: leases that expire later than this stay; lookAgainMs: max time until the account is checked again while it holds
--          leases; then ids of further keys
-- returns  {expired, key, …}: how many were expired, `atMost` if there may be more; and the further keys of leases that are due and stay,
--          because their counters were not in KEYS: call it again with them
-- include ../../shared/limits/parts/counters
-- include ../../shared/limits/parts/correct-counters
-- include ../../shared/limits/parts/leases
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local account, holder, atMost, lifeMsMax = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local dueBy, lookAgainMs = tonumber(ARGV[5]), tonumber(ARGV[6])
local countersOf = {}
for index = 7, #ARGV do countersOf[ARGV[index]] = KEYS[index + 1] end

-- Leases of a clock that has since been set back: without this they would stay until that time comes again.
for _, id in ipairs(redis.call('ZRANGEBYSCORE', KEYS[3], '(' .. now + lifeMsMax + windowMs, '+inf', 'LIMIT', 0, atMost)) do
  redis.call('ZADD', KEYS[3], now + lifeMsMax, id)
end

local result = {0}
for _, id in ipairs(redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', math.min(now, dueBy), 'LIMIT', 0, atMost)) do
  local text = redis.call('HGET', KEYS[2], id)
  local lease = text and cjson.decode(text)
  local keyCountersKey = lease and lease.key and countersOf[lease.key]
  if lease and lease.key and not keyCountersKey then
    result[#result + 1] = lease.key
  else
    redis.call('HDEL', KEYS[2], id)
    redis.call('ZREM', KEYS[3], id)
    result[1] = result[1] + 1
    if lease then
      correctCounters(KEYS[1], lease.month, lease.bucket, 0, lease.tokens, 0, false)
      if keyCountersKey then
        -- include ../../shared/limits/parts/correct-key
        correctKey(keyCountersKey, lease.month, lease.keyMonthOnly and 0 or lease.bucket, 0, lease.tokens, 0)
      end
      if lease.keep then
        -- include ../../shared/limits/parts/kept-bytes
        countReservedBytes(KEYS[1], KEYS[7], lease.deadline, -lease.keep)
      end
      redis.call('XADD', KEYS[6], '*', 'request', id, 'account', account, 'month', lease.month, 'tokens', 0, 'overage',
        lease.overage, 'runs', lease.run, 'admittedAt', lease.admittedAt, 'settledAt', now, 'report', lease.report)
      -- From now on: after a long time without a check, the worker that has the request may still settle it.
      redis.call('ZADD', KEYS[4], math.max(lease.deadline, now) + lostLifeMs, id)
    end
  end
end
if result[1] > 0 then
  redis.call('ZREMRANGEBYSCORE', KEYS[4], '-inf', now)
  redis.call('PEXPIRE', KEYS[4], dayMs + 2 * lostLifeMs)
end

local first = redis.call('ZRANGE', KEYS[3], 0, 0, 'WITHSCORES')
if first[2] then
  redis.call('ZADD', KEYS[5], math.min(tonumber(first[2]), now + lookAgainMs), holder)
  return result
end

-- Lines of batches are charged to no minute. A charge has to stay for a second minute, in which the clock may be set back. A charge
-- that is further ahead than that does not count.
local window = holder == account and redis.call('HGET', KEYS[1], 'window')
local chargedAt = window and tonumber(string.match(window, '(%d+)%]%]$') or 0)
if chargedAt and chargedAt < now + windowMs and chargedAt + 2 * windowMs > now then
  redis.call('ZADD', KEYS[5], chargedAt + 2 * windowMs, holder)
  return result
end
redis.call('ZREM', KEYS[5], holder)
if window then
  -- A hash that has held a long value uses 670 bytes or more, until it is written again: then 170 (decisions.md#small-counters-at-rest).
  local kept, lifeMs = {}, redis.call('PTTL', KEYS[1])
  local fields = redis.call('HGETALL', KEYS[1])
  for index = 1, #fields, 2 do
    if not string.match(fields[index], '^minute') and fields[index] ~= 'window' then
      kept[#kept + 1], kept[#kept + 2] = fields[index], fields[index + 1]
    end
  end
  redis.call('DEL', KEYS[1])
  if kept[1] then redis.call('HSET', KEYS[1], unpack(kept)) end
  if lifeMs > 0 then redis.call('PEXPIRE', KEYS[1], lifeMs) end
end
return result
