#!lua
-- Counts one event within a minute that begins with the first event.
-- KEYS[1]  string: the events of this minute; expires with it
-- ARGV[1]  minuteMs
-- returns  {count, leftMs}: the events so far, including this one, and the time until the count restarts
local count = redis.call('INCR', KEYS[1])
local leftMs = redis.call('PTTL', KEYS[1])
if leftMs < 0 then
  leftMs = tonumber(ARGV[1])
  redis.call('PEXPIRE', KEYS[1], leftMs)
end
-- A key exists up to and including the millisecond in which it expires.
return {count, leftMs + 1}
