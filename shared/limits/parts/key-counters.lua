-- A part of the scripts that read the counters of a further key, after current-counters.lua (load-lua.ts). It needs keyCountersKey (nil for a
-- key without limits of its own), keyId and keyPerMonth, and returns from the script with `cold` month key if the key's month is not counted
-- here: seed it (seed-key.lua), then call again.
-- The counters of all keys of an account are one hash. The fields of a key begin with its id and a colon; they are like those of an account
-- (counters.lua): `window`, whose buckets begin when those of the account do; and for this month `<YYYY-MM>:used` and `:reserved`, with
-- `countedAt`, when it was last counted. That is repeated each hour, because the release before settles requests without them.
-- withCounters appends: requests and tokens of the key in the last minute, resetMs until they have all left, its tokens used and reserved
-- this month (0 without a limit of the month), and 1 if the month should be counted again.
local keyBuckets, keyRequests, keyTokens, keyUsed, keyReserved, isCountOld = nil, 0, 0, 0, 0, 0
local keyReservedField = keyId and keyId .. ':' .. reservedField
if keyCountersKey then
  local keyWindow, usedOfKey, reservedOfKey, countedAt = unpack(call('HMGET', keyCountersKey, keyId .. ':window',
    keyId .. ':' .. usedField, keyReservedField, keyId .. ':countedAt'))
  if keyPerMonth ~= '-1' then
    if not usedOfKey then return format('cold %s %s', month, keyId) end
    keyUsed, keyReserved, countedAt = tonumber(usedOfKey), tonumber(reservedOfKey), tonumber(countedAt)
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
    return format('%s %d %d %d %d %d %d', withAccountCounters(words), keyRequests, keyTokens,
      latest and latest[4] + windowMs - now or 0, keyUsed, keyReserved, isCountOld)
  end
end
