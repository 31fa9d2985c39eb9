#!lua
local clock = redis.call('TIME')
-- Counts a new device in every network that contains its client, exactly: never more than the limit within any hour. A device that one
-- limit refuses is not counted anywhere.
-- KEYS      sorted sets, that of the client's own network first: devices by admission time, milliseconds of this clock
-- ARGV[1]   device: if its own network has admitted it within the hour, it is admitted again and counted once
-- ARGV[2+]  the limit of each key: devices in an hour
-- returns   {waitMs, position}: 0 and 0 if admitted, else the time to wait, and the index of the key with the longest wait
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local device, hour = ARGV[1], 3600000

local function waitFor(key, limit)
  redis.call('ZREMRANGEBYSCORE', key, '-inf', now - hour)
  -- Removes entries that are further in the future than a clock is ever set back.
  redis.call('ZREMRANGEBYSCORE', key, now + 60000, '+inf')
  local count = redis.call('ZCARD', key)
  if count < limit then return 0 end
  local leaving = redis.call('ZRANGE', key, count - limit, count - limit, 'WITHSCORES')
  return leaving[2] + hour - now
end

local waitMs, position = 0, 0
for index, key in ipairs(KEYS) do
  local wait = waitFor(key, tonumber(ARGV[index + 1]))
  if index == 1 and redis.call('ZSCORE', key, device) then return {0, 0} end
  if wait > waitMs then waitMs, position = wait, index end
end
if waitMs > 0 then return {waitMs, position} end

for _, key in ipairs(KEYS) do
  redis.call('ZADD', key, now, device)
  redis.call('PEXPIRE', key, hour + 60000)
end
return {0, 0}
