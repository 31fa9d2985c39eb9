#!lua flags=allow-oom
local clock = redis.call('TIME')
-- Counts the month of a further key from the store's details and the outbox entries since, and starts to count it here, even if it was counted.
-- Call it again with the values that it returns until it is done: a long outbox is read in pieces.
-- KEYS[1]  hash: its limit counters (parts/key-counters.lua)
-- KEYS[2]  hash: its account's leases (leases.lua)
-- KEYS[3]  hash: its account's leases for lines of batches
-- KEYS[4]  stream: the partition's outbox
-- KEYS[5]  hash: the outbox's marks
-- ARGV     account; key; month (YYYY-MM); the month two before it, which is no longer needed; from, the id of the last entry that is certainly in the details; readTo,
--          the id of the last entry that was added so far; used, the tokens so far; entriesMax to read in this call; the id of the last entry in each detail of the key,
--          as JSON: by day (since 1970), model and endpoint, separated by spaces
-- returns  {'more', readTo, used}; {'trimmed'}: entries past `from` are gone, start again; {'counted'}
-- include ../parts/counters
-- include ../parts/stream-ids
local account, key, month, goneMonth, from, readTo, used, entriesMax, details = unpack(ARGV)
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
used, details = tonumber(used), cjson.decode(details)

local entries = redis.call('XRANGE', KEYS[4], '(' .. readTo, '+', 'COUNT', entriesMax)
for _, entry in ipairs(entries) do
  local event = {}
  for position = 1, #entry[2], 2 do event[entry[2][position]] = entry[2][position + 1] end
  if event.account == account and event.month == month then
    local isRead, report = pcall(cjson.decode, event.report)
    if isRead and report.keyId == key then
      local day = math.floor(event.admittedAt / dayMs)
      local summedTo = details[string.format('%d %s %s', day, report.model, report.endpoint)]
      if not summedTo or isAfter(entry[1], summedTo) then used = used + tonumber(event.tokens) end
    end
  end
end
if #entries == tonumber(entriesMax) then return {'more', entries[#entries][1], used} end
if isAfter(redis.call('HGET', KEYS[5], 'trimmed') or '0-0', from) then return {'trimmed'} end

-- A lease from the time before the key had limits belongs to the key from now on: to its month, because no minute of it was charged.
-- An account has as many leases as requests at once (contract.md#ho4-what-an-account-creates).
local reserved = 0
for _, leases in ipairs({KEYS[2], KEYS[3]}) do
  local held = redis.call('HGETALL', leases)
  for index = 1, #held, 2 do
    local lease = string.find(held[index + 1], key, 1, true) and cjson.decode(held[index + 1])
    if lease and cjson.decode(lease.report).keyId == key then
      if lease.month == month then reserved = reserved + lease.tokens end
      if not lease.key then
        lease.key, lease.keyMonthOnly = key, true
        redis.call('HSET', leases, held[index], cjson.encode(lease))
      end
    end
  end
end

redis.call('HDEL', KEYS[1], goneMonth .. ':used', goneMonth .. ':reserved')
redis.call('HSET', KEYS[1], month .. ':used', used, month .. ':reserved', reserved, 'countedAt', string.format('%d', now))
redis.call('PEXPIRE', KEYS[1], keyCountersLifeMs)
return {'counted'}
