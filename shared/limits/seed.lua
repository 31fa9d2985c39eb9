#!lua flags=allow-oom
local clock = redis.call('TIME')
-- Counts a month of a holder of limits (counters.lua) from the store's sums and the outbox entries since, and starts to count it here; or only
-- compares. Call it again with the values that it returns until it is done: a long outbox is read in pieces.
-- keys     countersKey: those of the holder; leasesKey, batchLeasesKey: the leases of its account
-- args     account; month (YYYY-MM); mode: `count` the month, `compare`, or `replace` the counters of a month that is counted here; from, the id
--          of the last entry that is certainly in the store's sums; readTo, the id of the last entry that was added so far; chargedTokens and
--          overageTokens so far; entriesMax to read in this call; for a key: its id; details: JSON, the id of the last entry in each detail of
--          the key, by day (since 1970), model and endpoint, separated by spaces; and goneMonth, the month two before it, no longer needed
-- returns  JSON: outcome: 'more' entries are to be read, with readTo, chargedTokens and overageTokens; 'trimmed': entries past `from` are
--          gone, start again;
--          'counted', with after and before, each {chargedTokens, reservedTokens, overageTokens}, no `before` if the month was not counted
--          here. Tokens are text
-- include parts/counters
-- include parts/lease
-- include parts/stream-ids
local call, format, floor = redis.call, string.format, math.floor
chargedTokens, overageTokens, details = tonumber(chargedTokens), tonumber(overageTokens), key and cjson.decode(details)

-- Whether an entry is of the key, and not in a detail of the store yet.
local function isOfKey(id, event)
  local isRead, report = pcall(cjson.decode, event.report)
  if not isRead or report.keyId ~= key then return false end
  local summedTo = details[format('%d %s %s', floor(event.admittedAt / dayMs), report.model, report.endpoint)]
  return not summedTo or isAfter(id, summedTo)
end

local entries = call('XRANGE', outboxKey, '(' .. readTo, '+', 'COUNT', entriesMax)
for _, entry in ipairs(entries) do
  local event = {}
  for position = 1, #entry[2], 2 do event[entry[2][position]] = entry[2][position + 1] end
  if event.account == account and event.month == month and (not key or isOfKey(entry[1], event)) then
    chargedTokens = chargedTokens + event.chargedTokens
    if event.overage == '1' and not key then overageTokens = overageTokens + event.chargedTokens end
  end
end
-- JSON has no more than 14 digits of a number.
local function textOf(number) return format('%d', number) end
if #entries == tonumber(entriesMax) then
  return cjson.encode({outcome = 'more', readTo = entries[#entries][1], chargedTokens = textOf(chargedTokens),
    overageTokens = textOf(overageTokens)})
end
if isAfter(call('HGET', outboxMarksKey, 'trimmed') or '0-0', from) then return cjson.encode({outcome = 'trimmed'}) end

local reservedTokens = 0
for _, leases in ipairs({leasesKey, batchLeasesKey}) do
  local all = call('HGETALL', leases)
  for index = 1, #all, 2 do
    -- An account has as many leases as requests at once (contract.md#ho4-what-an-account-creates).
    local lease = (not key or string.find(all[index + 1], key, 1, true)) and unpackLease(all[index + 1])
    if lease and (not key or cjson.decode(lease.report).keyId == key) then
      if lease.month == month then reservedTokens = reservedTokens + lease.reservedTokens end
      -- A lease from the time before the key had limits belongs to the key from now on: to its month, because no minute of it was charged.
      if key and not lease.key then
        lease.key, lease.isKeyMonthOnly = key, true
        call('HSET', leases, all[index], packLease(lease))
      end
    end
  end
end

local chargedField, reservedField, overageField = month .. ':chargedTokens', month .. ':reservedTokens', month .. ':overageTokens'
local counted = call('HMGET', countersKey, chargedField, reservedField, overageField)
local before = counted[1] and {chargedTokens = counted[1], reservedTokens = counted[2] or '0', overageTokens = counted[3] or '0'} or nil
local after = {chargedTokens = textOf(chargedTokens), reservedTokens = textOf(reservedTokens), overageTokens = textOf(overageTokens)}
-- Only a caller that needs the month starts it: the month after it starts at 0 because this one is counted.
if mode == 'count' or (mode == 'replace' and before) then
  call('HSET', countersKey, chargedField, after.chargedTokens, reservedField, after.reservedTokens, overageField, after.overageTokens)
  if key then
    call('HSET', countersKey, 'countedAt', textOf(clock[1] * 1000 + floor(clock[2] / 1000)))
    call('HDEL', countersKey, goneMonth .. ':chargedTokens', goneMonth .. ':reservedTokens', goneMonth .. ':overageTokens')
  end
  call('PEXPIRE', countersKey, key and keyCountersLifeMs or countersLifeMs)
end
return cjson.encode({outcome = 'counted', before = before, after = after})
