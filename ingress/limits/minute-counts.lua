#!lua
-- Counts one event within a minute that begins with the first event, and expires with it.
-- keys     key: the counter
-- args     minuteMs
-- returns  JSON: count: the events so far, including this one; leftMs: the time until the count restarts
local count = redis.call('INCR', key)
local leftMs = redis.call('PTTL', key)
if leftMs < 0 then
  leftMs = tonumber(minuteMs)
  redis.call('PEXPIRE', key, leftMs)
end
-- A key exists up to and including the millisecond in which it expires.
return cjson.encode({count = count, leftMs = leftMs + 1})
