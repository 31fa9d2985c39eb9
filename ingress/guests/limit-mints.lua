#!lua
local clock = redis.call('TIME')
-- Counts the devices that come into being from one client address, exactly: never more than the limit in any hour.
-- KEYS[1]  sorted set: the devices by when they were let in, milliseconds of this clock
-- ARGV[1]  device: a device that was let in within the hour is let in again, and counted once
-- ARGV[2]  limit: devices in an hour
-- returns  0 where it is let in, else the milliseconds until it would be
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local device, limit = ARGV[1], tonumber(ARGV[2])
local hour = 3600000

redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - hour)
-- Further ahead than a clock is ever put back.
redis.call('ZREMRANGEBYSCORE', KEYS[1], now + 60000, '+inf')
if redis.call('ZSCORE', KEYS[1], device) then return 0 end

local count = redis.call('ZCARD', KEYS[1])
if count < limit then
  redis.call('ZADD', KEYS[1], now, device)
  redis.call('PEXPIRE', KEYS[1], hour + 60000)
  return 0
end
local leaving = redis.call('ZRANGE', KEYS[1], count - limit, count - limit, 'WITHSCORES')
return leaving[2] + hour - now
