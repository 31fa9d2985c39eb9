#!lua flags=allow-oom
local clock = redis.call('TIME')
-- Ends the leases of one account that are past their time, and notes when to look after the account again. Runs also when
-- Redis is out of memory.
-- KEYS[1]  hash: the account's standing (standing.lua)
-- KEYS[2]  hash: its leases (leases.lua)
-- KEYS[3]  sorted set: when they end
-- KEYS[4]  sorted set: its requests that were lost
-- KEYS[5]  sorted set: who holds leases in the partition
-- KEYS[6]  stream: the partition's outbox
-- ARGV     account; holder, its name in KEYS[5]; atMost: leases to end in this call; lifeMsMax: longer than any lease can live
-- returns  how many were ended; `atMost` if there may be more
-- include standing
-- include correct-standing
-- include leases
-- include lost-leases
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local account, holder, atMost, lifeMsMax = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])

-- Of a clock that has since been put back: without this such a lease would stand until that time comes again.
for _, id in ipairs(redis.call('ZRANGEBYSCORE', KEYS[3], '(' .. now + lifeMsMax + windowMs, '+inf', 'LIMIT', 0, atMost)) do
  redis.call('ZADD', KEYS[3], now + lifeMsMax, id)
end

local keys = {standing = KEYS[1], leases = KEYS[2], ends = KEYS[3], lost = KEYS[4], outbox = KEYS[6]}
local lost = endLostLeases(keys, account, now, atMost)
local first = redis.call('ZRANGE', KEYS[3], 0, 0, 'WITHSCORES')
if first[2] then redis.call('ZADD', KEYS[5], first[2], holder) else redis.call('ZREM', KEYS[5], holder) end
return lost
