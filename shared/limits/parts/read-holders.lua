-- A part of the scripts that read the counters of the holders of limits (counters.lua): the account, and the key that the caller has used, if
-- that has limits of its own (load-lua.ts). It needs call, floor, format, match, now, countersKey, keyCountersKey (nil without such a key),
-- keyId, and keyLimitedSince, the month (YYYY-MM) since when the key has had a limit of the month, nil if it has none. It returns from the script
-- with `cold` month, or `cold` month key: the month of that holder is not counted here. Seed it (seed.lua), then call again.
-- withCounters appends now, month and the counters of the account, then now, keyId and those of the key (admission.ts).

-- The month (YYYY-MM) of a time, or an earlier month. It converts days to years by counting from 1 March 0000, so that the leap day is the last
-- day of a year (H. Hinnant, "chrono-compatible low-level date algorithms").
local function monthName(ms, monthsBefore)
  local days = (ms - ms % dayMs) / dayMs + 719468
  local dayOfEra = days % 146097
  local year = dayOfEra - (dayOfEra - dayOfEra % 1460) / 1460 + (dayOfEra - dayOfEra % 36524) / 36524
    - (dayOfEra - dayOfEra % 146096) / 146096
  year = (year - year % 365) / 365
  local dayOfYear = dayOfEra - (365 * year + (year - year % 4) / 4 - (year - year % 100) / 100)
  local month = ((days - dayOfEra) / 146097 * 400 + year) * 12 + floor((5 * dayOfYear + 2) / 153) + 2 - monthsBefore
  return format('%d-%02d', (month - month % 12) / 12, month % 12 + 1)
end

-- If the clock steps back by less than a minute, charges use the latest time at which the account was charged until the clock catches up.
local at, month = now, monthName(now, 0)
local holders = {}
for index = 1, keyCountersKey and 2 or 1 do
  local key, id, limitedSince = countersKey, nil, ''
  if index == 2 then key, id, limitedSince = keyCountersKey, keyId, keyLimitedSince end
  local window, storedDay, dayRequests, chargedTokens, reservedTokens, overageTokens, countedAt = unpack(call('HMGET', key, 'window', 'day', 'dayRequests',
    month .. ':chargedTokens', month .. ':reservedTokens', month .. ':overageTokens', 'countedAt'))

  local oldestEnd = match(window or '', '^%[%[%d+,%-?%d+,%-?%d+,(%d+)')
  -- The latest bucket, the position of its counts in the text, and the sums of all. With tokens up to 2^53, they take 83 characters.
  local latest = '%[(%d+),()(%-?%d+),(%-?%d+),(%d+)%]%] (%-?%d+) (%-?%d+)$'
  local begun, countsAt, ofBucket, tokensOfBucket, latestEnd, requests, tokens = match(window or '', latest, -88)
  if not oldestEnd or tonumber(oldestEnd) <= now - windowMs or not latestEnd or tonumber(latestEnd) > now then
    -- A bucket leaves the window, the clock was put back, or the sums are not known: the window is counted again. Charges further ahead than a
    -- minute are dropped (contract.md#m5-clock-steps).
    local buckets = {}
    for _, bucket in ipairs(window and cjson.decode(match(window, '^[^ ]+')) or {}) do
      if bucket[4] < now + windowMs then
        buckets[#buckets + 1] = bucket
        if index == 1 then at = math.max(at, bucket[4]) end
      end
    end
    while buckets[1] and buckets[1][4] <= at - windowMs do table.remove(buckets, 1) end
    local sums = {0, 0}
    for place, bucket in ipairs(buckets) do
      sums[1], sums[2] = sums[1] + bucket[2], sums[2] + bucket[3]
      buckets[place] = format('[%d,%d,%d,%d]', unpack(bucket))
    end
    window = buckets[1] and format('[%s] %d %d', table.concat(buckets, ','), sums[1], sums[2])
    begun, countsAt, ofBucket, tokensOfBucket, latestEnd, requests, tokens = match(window or '', latest, -88)
    if month ~= monthName(at, 0) then
      month = monthName(at, 0)
      chargedTokens, reservedTokens, overageTokens = unpack(call('HMGET', key, month .. ':chargedTokens', month .. ':reservedTokens', month .. ':overageTokens'))
    end
  end

  local isNewMonth, isCountOld = false, 0
  if limitedSince then
    -- Last month is counted, and the holder has had its limit since then: no use of this month was missed. It starts at 0. That of a key is
    -- counted again in the background, and then each hour: a limit that was removed and set again has missed what was used in between.
    isNewMonth = not chargedTokens and not reservedTokens and limitedSince < month and call('HEXISTS', key, monthName(at, 1) .. ':chargedTokens') == 1
    if not chargedTokens and not isNewMonth then return format(id and 'cold %s %s' or 'cold %s', month, id) end
    countedAt = not isNewMonth and tonumber(countedAt or 0) or 0
    if id and (countedAt + 3600000 <= now or countedAt > now + windowMs) then isCountOld = 1 end
  end
  local day = (at - at % dayMs) / dayMs
  -- With no more fields than 16, the table costs less.
  holders[index] = {isNewMonth = isNewMonth, isCountOld = isCountOld, window = window, begun = begun, countsAt = countsAt, ofBucket = ofBucket,
    tokensOfBucket = tokensOfBucket, requests = tonumber(requests or 0), tokens = tonumber(tokens or 0),
    resetMs = latestEnd and latestEnd + windowMs - now or 0, dayRequests = tonumber(storedDay) == day and tonumber(dayRequests) or 0,
    chargedTokens = limitedSince and tonumber(chargedTokens or 0) or 0, reservedTokens = limitedSince and tonumber(reservedTokens or 0) or 0,
    overageTokens = tonumber(overageTokens or 0), overRequests = 0, overTokens = 0}
end
local function withCounters(words)
  for index = 1, #holders do
    local holder = holders[index]
    words = format('%s %d %s $holder', words, now, index == 1 and month or keyId, valuesOf.holder(holder))
  end
  return words
end
