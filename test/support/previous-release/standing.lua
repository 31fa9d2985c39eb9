-- A part of the scripts that charge an account or give back to it; it stands behind their first lines (read-lua.ts).
-- The standing is a hash: `window`, the last minute as JSON; `day` and `dayRequests`; and for this month and the last
-- `<YYYY-MM>:used`, `:reserved` and `:overage`, all of them tokens.
-- The window is a list of buckets of 5 s, oldest first: {when it was first charged, requests, tokens, when it was last
-- charged}. A bucket leaves as a whole, 60 s after it was last charged, so that whatever it holds counts for at least as long.
local bucketMs, windowMs, dayMs = 5000, 60000, 86400000
local standingLifeMs = 62 * dayMs

-- Days to years by counting from 1 March 0000, so that the leap day is a year's last (H. Hinnant, "chrono-compatible
-- low-level date algorithms").
local function monthAt(ms)
  local days = math.floor(ms / dayMs) + 719468
  local era = math.floor(days / 146097)
  local dayOfEra = days - era * 146097
  local yearOfEra = math.floor(
    (dayOfEra - math.floor(dayOfEra / 1460) + math.floor(dayOfEra / 36524) - math.floor(dayOfEra / 146096)) / 365
  )
  local dayOfYear = dayOfEra - (365 * yearOfEra + math.floor(yearOfEra / 4) - math.floor(yearOfEra / 100))
  local months = math.floor((5 * dayOfYear + 2) / 153) + 2
  return (era * 400 + yearOfEra) * 12 + months
end

local function monthName(month) return string.format('%04d-%02d', math.floor(month / 12), month % 12 + 1) end

local function readWindow(text) return text and cjson.decode(text) or {} end

-- What was charged stays charged, whatever becomes of the bucket it was charged to; `requests` and `tokens` may be negative.
local function correctWindow(standingKey, begunAt, requests, tokens)
  local window = readWindow(redis.call('HGET', standingKey, 'window'))
  for _, bucket in ipairs(window) do
    if bucket[1] == begunAt then
      bucket[2], bucket[3] = bucket[2] + requests, bucket[3] + tokens
      redis.call('HSET', standingKey, 'window', cjson.encode(window))
      return
    end
  end
end

-- A month that is not counted here is not begun here either: whoever needs it seeds it from the store and the outbox. With
-- only `:reserved` it is one of which something was missed, so that it does not begin at 0 because the last month is counted.
local function correctMonth(standingKey, month, used, reserved, isOverage)
  if redis.call('HEXISTS', standingKey, month .. ':used') == 0 then
    if used ~= 0 and redis.call('EXISTS', standingKey) == 1 then redis.call('HSET', standingKey, month .. ':reserved', 0) end
    return
  end
  if used ~= 0 then redis.call('HINCRBY', standingKey, month .. ':used', used) end
  if reserved ~= 0 then redis.call('HINCRBY', standingKey, month .. ':reserved', reserved) end
  if isOverage and used ~= 0 then redis.call('HINCRBY', standingKey, month .. ':overage', used) end
end
