-- A part of the scripts that read the counters of a further key, after current-counters.lua (load-lua.ts). It needs keyCountersKey (nil for a
-- key without limits of its own), keyId and keyPerMonth, and returns from the script with `cold` month key if the key's month has to be
-- counted: seed it (seed-key.lua), then call again.
-- The counters of a key are a hash like that of its account (counters.lua), without days; its buckets begin when those of the account do.
-- `countedAt` is when its month was last counted. That is repeated within the hour, because the release before settles requests without them.
-- withCounters appends: requests and tokens of the key in the last minute, resetMs until they have all left, and its tokens used and reserved
-- this month, 0 without a limit of the month.
local keyBuckets, keyRequests, keyTokens, keyUsed, keyReserved = nil, 0, 0, 0, 0
if keyCountersKey then
  local keyWindow, usedOfKey, reservedOfKey, countedAt =
    unpack(call('HMGET', keyCountersKey, 'window', usedField, reservedField, 'countedAt'))
  if keyPerMonth ~= '-1' then
    local counted = usedOfKey and tonumber(countedAt) or 0
    if counted + recountMs <= now or counted > now + windowMs then return format('cold %s %s', month, keyId) end
    keyUsed, keyReserved = tonumber(usedOfKey), tonumber(reservedOfKey or 0)
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
    return format('%s %d %d %d %d %d', withAccountCounters(words), keyRequests, keyTokens, latest and latest[4] + windowMs - now or 0,
      keyUsed, keyReserved)
  end
end
