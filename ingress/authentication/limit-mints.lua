#!lua
local clock = redis.call('TIME')
-- Counts a new device in every network that contains its client, exactly: never more than the limit within any hour. A device that one
-- limit refuses is not counted anywhere.
-- keys     networks: that of the client first; they have devices by admission time, milliseconds of this clock
-- args     device: if its own network has admitted it within the hour, it is admitted again and counted once; limits: those of the
--          networks, devices in an hour
-- returns  JSON: waitMs: the time to wait, 0 if it is admitted; network: the key with the longest wait, empty if there is none
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local hour = 3600000

local function waitFor(key, limit)
  redis.call('ZREMRANGEBYSCORE', key, '-inf', now - hour)
  -- Removes entries that are further in the future than a clock is ever set back.
  redis.call('ZREMRANGEBYSCORE', key, now + 60000, '+inf')
  local count = redis.call('ZCARD', key)
  if count < limit then return 0 end
  local leaving = redis.call('ZRANGE', key, count - limit, count - limit, 'WITHSCORES')
  return leaving[2] + hour - now
end

local longest = {waitMs = 0, network = ''}
for index, network in ipairs(networks) do
  local waitMs = waitFor(network, tonumber(limits[index]))
  if index == 1 and redis.call('ZSCORE', network, device) then return cjson.encode(longest) end
  if waitMs > longest.waitMs then longest = {waitMs = waitMs, network = network} end
end
if longest.waitMs > 0 then return cjson.encode(longest) end

for _, key in ipairs(networks) do
  redis.call('ZADD', key, now, device)
  redis.call('PEXPIRE', key, hour + 60000)
end
return cjson.encode(longest)
