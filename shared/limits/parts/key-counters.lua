-- A part of the scripts that read the counters of a further key, after current-counters.lua (load-lua.ts). It needs keyCountersKey (nil for a
-- key without limits of its own), keyId, keyPerMonth and keyLimitedSince, and returns from the script with `cold` month key if the key's month is not counted
-- here: seed it (seed-key.lua), then call again.
-- The counters of a key are a hash of its own, with fields like those of an account (counters.lua): `window`, whose buckets begin when those
-- of the account do; and for a month `<YYYY-MM>:used` and `:reserved`, with `countedAt`, when it was last counted. That is repeated each hour,
-- because a limit that was removed and set again has missed what was used in between.
-- withCounters appends: the key's id; its requests and tokens in the last minute, resetMs until they have all left, its tokens used and reserved
-- this month (0 without a limit of the month), and 1 if the month should be counted again.
local keyBuckets, keyRequests, keyTokens, keyUsed, keyReserved, isCountOld = nil, 0, 0, 0, 0, 0
if keyCountersKey then
  local keyWindow, usedOfKey, reservedOfKey, countedAt = unpack(call('HMGET', keyCountersKey, 'window', usedField,
    reservedField, 'countedAt'))
  if keyPerMonth ~= '-1' then
    -- Last month is counted, and the key has had the limit since then: no use of this month was missed. It starts at 0, and is counted again
    -- in the background.
    local isNewKeyMonth = not usedOfKey and keyLimitedSince < month and call('HEXISTS', keyCountersKey, monthName(at, 1) .. ':used') == 1
    if not usedOfKey and not isNewKeyMonth then return format('cold %s %s', month, keyId) end
    keyUsed, keyReserved = tonumber(usedOfKey or 0), tonumber(reservedOfKey or 0)
    countedAt = not isNewKeyMonth and tonumber(countedAt or 0) or 0
    if countedAt + recountMs <= now or countedAt > now + windowMs then isCountOld = 1 end
  end
  keyBuckets = {}
  for _, bucket in ipairs(keyWindow and cjson.decode(keyWindow) or {}) do
    if bucket[4] > at - windowMs and bucket[4] < now + windowMs then
      keyBuckets[#keyBuckets + 1] = bucket
      keyRequests, keyTokens = keyRequests + bucket[2], keyTokens + bucket[3]
    end
  end
  local withAccountCounters = withCounters
  withCounters = function(words)
    local latest = keyBuckets[#keyBuckets]
    return format('%s %s %d %d %d %d %d %d', withAccountCounters(words), keyId, keyRequests, keyTokens,
      latest and latest[4] + windowMs - now or 0, keyUsed, keyReserved, isCountOld)
  end
end
