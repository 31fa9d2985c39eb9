#!lua flags=allow-oom
local clock = redis.call('TIME')
-- Ends the leases of one account that are past their time: what they hold is given back, nothing is charged, and their records
-- say that they were lost. Notes when to look after the account again. Once nothing of its is in flight and its last minute is
-- over, its standing is made small. Runs also when Redis is out of memory.
-- KEYS[1]  hash: the account's limit counters (counters.lua)
-- KEYS[2]  hash: its leases (leases.lua)
-- KEYS[3]  sorted set: when they end
-- KEYS[4]  sorted set: its requests that were lost
-- KEYS[5]  sorted set: who holds leases in the partition
-- KEYS[6]  stream: the partition's outbox
-- ARGV     account; holder, its name in KEYS[5]; atMost: leases to end in this call; lifeMsMax: longer than any lease can live;
--          dueBy: those that were to end later than this stay; lookAgainMs: until the account is looked after again while it
--          holds leases, at the latest
-- returns  how many were ended; `atMost` if there may be more
-- include ../../shared/limits/parts/counters
-- include ../../shared/limits/parts/correct-counters
-- include ../../shared/limits/parts/leases
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local account, holder, atMost, lifeMsMax = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local dueBy, lookAgainMs = tonumber(ARGV[5]), tonumber(ARGV[6])

-- Of a clock that has since been put back: without this such a lease would stand until that time comes again.
for _, id in ipairs(redis.call('ZRANGEBYSCORE', KEYS[3], '(' .. now + lifeMsMax + windowMs, '+inf', 'LIMIT', 0, atMost)) do
  redis.call('ZADD', KEYS[3], now + lifeMsMax, id)
end

local ids = redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', math.min(now, dueBy), 'LIMIT', 0, atMost)
for _, id in ipairs(ids) do
  local text = redis.call('HGET', KEYS[2], id)
  redis.call('HDEL', KEYS[2], id)
  redis.call('ZREM', KEYS[3], id)
  if text then
    local lease = cjson.decode(text)
    correctCounters(KEYS[1], lease.month, lease.bucket, 0, lease.tokens, 0, false)
    redis.call('XADD', KEYS[6], '*', 'request', id, 'account', account, 'month', lease.month, 'tokens', 0, 'overage',
      lease.overage, 'runs', lease.run, 'admittedAt', lease.admittedAt, 'settledAt', now, 'report', lease.report)
    -- Counted from now: if no one looked for longer, the worker that has the request may still settle it.
    redis.call('ZADD', KEYS[4], math.max(lease.deadline, now) + lostLifeMs, id)
  end
end
if #ids > 0 then
  redis.call('ZREMRANGEBYSCORE', KEYS[4], '-inf', now)
  redis.call('PEXPIRE', KEYS[4], dayMs + 2 * lostLifeMs)
end

local first = redis.call('ZRANGE', KEYS[3], 0, 0, 'WITHSCORES')
if first[2] then
  redis.call('ZADD', KEYS[5], math.min(tonumber(first[2]), now + lookAgainMs), holder)
  return #ids
end

-- Lines of batches are charged to no minute. What was charged has to stay for a second minute, in which the clock may be put
-- back; what was charged further ahead than that counts for nothing.
local window = holder == account and redis.call('HGET', KEYS[1], 'window')
local chargedAt = window and tonumber(string.match(window, '(%d+)%]%]$') or 0)
if chargedAt and chargedAt < now + windowMs and chargedAt + 2 * windowMs > now then
  redis.call('ZADD', KEYS[5], chargedAt + 2 * windowMs, holder)
  return #ids
end
redis.call('ZREM', KEYS[5], holder)
if window then
  -- A hash that has held a long value stays a large one until it is written again: 170 bytes, not 670 or more.
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
return #ids
