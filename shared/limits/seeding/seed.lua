#!lua flags=allow-oom
-- Counts an account's month from the store's sum and the outbox entries since, and starts to count it here; or only compares.
-- Call it again with the values that it returns until it is done: a long outbox is read in pieces.
-- KEYS[1]  hash: the account's limit counters (counters.lua)
-- KEYS[2]  hash: its leases (leases.lua)
-- KEYS[3]  hash: its leases for lines of batches
-- KEYS[4]  stream: the partition's outbox
-- KEYS[5]  hash: the outbox's marks
-- ARGV     account; month (YYYY-MM); mode: `seed` a month that is not counted here, `compare`, or `replace` the counters;
--          from, the id of the last entry that is certainly in the store's sum; readTo, the id of the last entry that was added
--          so far; used and overage, the tokens so far; entriesMax to read in this call
-- returns  {'more', readTo, used, overage}; {'trimmed'}: entries past `from` are gone, start again;
--          {'counted', before, after}, each {used, reserved, overage}, `before` empty if the month was not counted here
-- include ../parts/counters
-- include ../parts/stream-ids
local account, month, mode, from, readTo, used, overage, entriesMax = unpack(ARGV)
used, overage = tonumber(used), tonumber(overage)

local entries = redis.call('XRANGE', KEYS[4], '(' .. readTo, '+', 'COUNT', entriesMax)
for _, entry in ipairs(entries) do
  local event = {}
  for position = 1, #entry[2], 2 do event[entry[2][position]] = entry[2][position + 1] end
  if event.account == account and event.month == month then
    used = used + tonumber(event.tokens)
    if event.overage == '1' then overage = overage + tonumber(event.tokens) end
  end
end
if #entries == tonumber(entriesMax) then return {'more', entries[#entries][1], used, overage} end
if isAfter(redis.call('HGET', KEYS[5], 'trimmed') or '0-0', from) then return {'trimmed'} end

local reserved = 0
for _, key in ipairs({KEYS[2], KEYS[3]}) do
  for _, text in ipairs(redis.call('HVALS', key)) do
    local lease = cjson.decode(text)
    if lease.month == month then reserved = reserved + lease.tokens end
  end
end

local counted = redis.call('HMGET', KEYS[1], month .. ':used', month .. ':reserved', month .. ':overage')
local before = counted[1] and {tonumber(counted[1]), tonumber(counted[2] or 0), tonumber(counted[3] or 0)} or {}
-- Only a caller that needs the month starts it: the month after it starts at 0 because this one is counted.
if (mode == 'seed' and not counted[1]) or (mode == 'replace' and counted[1]) then
  redis.call('HSET', KEYS[1], month .. ':used', used, month .. ':reserved', reserved, month .. ':overage', overage)
  redis.call('PEXPIRE', KEYS[1], countersLifeMs)
end
return {'counted', before, {used, reserved, overage}}
