#!lua flags=allow-oom
-- Takes an admission back: everything that it was charged is refunded, and it leaves no usage record (contract.md#n9-release).
-- A request that is not known here is marked, so that a late admission of it is void. Runs also when Redis is out of memory.
-- A repeated call changes nothing.
-- KEYS[1]  hash: the account's limit counters (counters.lua)
-- KEYS[2]  hash: its leases (leases.lua)
-- KEYS[3]  sorted set: when they expire
-- KEYS[4]  sorted set: its lost requests
-- KEYS[5]  string: how this request was ended
-- KEYS[6]  hash: the limit counters of its key (parts/key-counters.lua)
-- KEYS[7]  hash: the claim of the request's idempotency key (parts/find-claim.lua); left out if it has none, as are the next two
-- KEYS[8]  sorted set: the answers that its account keeps, unused
-- KEYS[9]  hash: the bytes that the partition keeps, by the minute in which they expire (parts/kept-bytes.lua)
-- ARGV     request; lifeMs of the mark; which: `admitted`, to release it only if its job has not started; the number of its
--          latest run, given by the process that runs it; or `any`, if the caller knows that no process runs it
-- returns  'released', 'started' or 'ended' (settled or lost)
-- include parts/counters
-- include parts/correct-counters
local request, lifeMs, which = ARGV[1], ARGV[2], ARGV[3]

local text = redis.call('HGET', KEYS[2], request)
if text then
  local lease = cjson.decode(text)
  if lease.run ~= 0 and which ~= 'any' and lease.run ~= tonumber(which) then return 'started' end
  redis.call('HDEL', KEYS[2], request)
  redis.call('ZREM', KEYS[3], request)
  correctCounters(KEYS[1], lease.month, lease.bucket, -1, lease.tokens, 0, false)
  if lease.key then
    -- include parts/correct-key
    correctKey(KEYS[6], lease.month, lease.keyMonthOnly and 0 or lease.bucket, -1, lease.tokens, 0)
  end
  if lease.keep then
    -- include parts/kept-bytes
    countReservedBytes(KEYS[1], KEYS[9], lease.deadline, -lease.keep)
  end
  if tonumber(redis.call('HGET', KEYS[1], 'day')) == lease.day then redis.call('HINCRBY', KEYS[1], 'dayRequests', -1) end
else
  local ended = redis.call('GET', KEYS[5])
  if ended then return ended == 'released' and 'released' or 'ended' end
  if redis.call('ZSCORE', KEYS[4], request) then return 'ended' end
end
redis.call('SET', KEYS[5], 'released', 'PX', lifeMs)
if KEYS[7] and redis.call('HGET', KEYS[7], 'request') == request then redis.call('DEL', KEYS[7]) end
return 'released'
