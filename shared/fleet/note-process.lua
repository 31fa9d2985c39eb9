#!lua flags=allow-oom
local clock = redis.call('TIME')
-- Notes a process of the fleet with its load, or removes it, and returns every process that was noted in the last lifeMs. Removes the others.
-- KEYS[1]  hash: process -> `<milliseconds of this clock> <its description>`
-- KEYS[2]  hash: process -> its load
-- constants lifeMs
-- ARGV     process; its description, empty if it leaves; its load
-- returns  the descriptions
local call, floor, format = redis.call, math.floor, string.format
local key, loads = KEYS[1], KEYS[2]
local process, description, load = unpack(ARGV)
local now = clock[1] * 1000 + floor(clock[2] / 1000)

if description == '' then
  call('HDEL', key, process)
  call('HDEL', loads, process)
else
  call('HSET', key, process, format('%d %s', now, description))
  call('HSET', loads, process, load)
end
local found = {}
local noted = call('HGETALL', key)
for index = 1, #noted, 2 do
  local at, text = string.match(noted[index + 1], '^(%d+) (.*)$')
  -- A time in the future is from before the clock was set back.
  local age = now - tonumber(at or 0)
  if age < lifeMs and age > -lifeMs then
    found[#found + 1] = text
  else
    call('HDEL', key, noted[index])
    call('HDEL', loads, noted[index])
  end
end
call('PEXPIRE', key, lifeMs)
call('PEXPIRE', loads, lifeMs)
return found
