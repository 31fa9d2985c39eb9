-- A part of admit.lua: counts the window again if a bucket leaves it, the clock was put back, or its sums are not known.
-- If the clock steps back by less than a minute, charges use the latest time that was seen until the clock catches up.
-- Charges further ahead than a minute are dropped (contract.md#m5-clock-steps).
local buckets = {}
for _, bucket in ipairs(window and cjson.decode(window) or {}) do
  if bucket[4] < now + windowMs then
    buckets[#buckets + 1] = bucket
    at = math.max(at, bucket[4])
  end
end
while buckets[1] and buckets[1][4] <= at - windowMs do table.remove(buckets, 1) end

minuteRequests, minuteTokens = 0, 0
for index, bucket in ipairs(buckets) do
  minuteRequests, minuteTokens = minuteRequests + bucket[2], minuteTokens + bucket[3]
  buckets[index] = format('[%d,%d,%d,%d]', unpack(bucket))
end
window = buckets[1] and ' [' .. table.concat(buckets, ',') .. ']'
begun, countsAt, ofBucket, tokensOfBucket, latestEnd = readLatest()

if month ~= monthName(at, 0) then
  month = monthName(at, 0)
  usedField, reservedField, overageField = month .. ':used', month .. ':reserved', month .. ':overage'
  used, reserved, overageUsed = unpack(call('HMGET', countersKey, usedField, reservedField, overageField))
end
