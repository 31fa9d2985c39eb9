#!lua
local clock = redis.call('TIME')
-- Decides whether a request is admitted, and when that was, by Redis's clock alone.
-- KEYS[1]  the request's runs; read by nothing here, it routes the script to the account's partition
-- returns  now, milliseconds since the epoch
return clock[1] * 1000 + math.floor(clock[2] / 1000)
