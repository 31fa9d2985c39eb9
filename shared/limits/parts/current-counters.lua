-- A part of the scripts that read the current counters of an account (load-lua.ts), after counters.lua. It needs call, floor, format, match, now
-- and countersKey, and returns from the script with `cold` month if the month is not counted here: seed it, then call again.
-- withCounters appends: now month used reserved overage, requests and tokens of the last minute, resetMs until they have all left, requests of
-- the day.
-- include month-name
local at, month = now, monthName(now, 0)
local usedField, reservedField, overageField = month .. ':used', month .. ':reserved', month .. ':overage'
local window, minuteRequests, minuteTokens, storedDay, dayRequests, used, reserved, overageUsed =
  unpack(call('HMGET', countersKey, 'window', 'minuteRequests', 'minuteTokens', 'day', 'dayRequests', usedField, reservedField,
    overageField))

-- The latest bucket, and the position of its counts in the text.
local function readLatest() return match(window or '', '%[(%d+),()(%-?%d+),(%-?%d+),(%d+)%]%]$', -64) end
local begun, countsAt, ofBucket, tokensOfBucket, latestEnd = readLatest()
local oldestEnd = match(window or '', '^ %[%[%d+,%-?%d+,%-?%d+,(%d+)')
if not oldestEnd or tonumber(oldestEnd) <= now - windowMs or not latestEnd or tonumber(latestEnd) > now then
  -- include recount-window
end

-- Last month is still counted, so no usage of this month was missed.
local isNewMonth = not used and not reserved and call('HEXISTS', countersKey, monthName(at, 1) .. ':used') == 1
if not used and not isNewMonth then return 'cold ' .. month end

local day = floor(at / dayMs)
used, reserved, overageUsed = tonumber(used or 0), tonumber(reserved or 0), tonumber(overageUsed or 0)
dayRequests = tonumber(storedDay) == day and tonumber(dayRequests) or 0
minuteRequests, minuteTokens = window and tonumber(minuteRequests) or 0, window and tonumber(minuteTokens) or 0
local resetMs = window and latestEnd + windowMs - now or 0
local function withCounters(words)
  return format('%s %d %s %d %d %d %d %d %d %d', words, now, month, used, reserved, overageUsed, minuteRequests, minuteTokens,
    resetMs, dayRequests)
end
