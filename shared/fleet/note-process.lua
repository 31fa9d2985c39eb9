#!lua flags=allow-oom
local clock = redis.call('TIME')
-- Notes a process of the fleet, or removes it, and returns every process that was noted in the last lifeMs. Removes the others.
-- KEYS[1]  hash: process -> `<milliseconds of this clock> <its description>`
-- constants lifeMs
-- ARGV     process; its description, empty if it leaves
-- returns  the descriptions
local call, floor, format = redis.call, math.floor, string.format
local key, process, description = KEYS[1], ARGV[1], ARGV[2]
local now = clock[1] * 1000 + floor(clock[2] / 1000)

if description == '' then call('HDEL', key, process) else call('HSET', key, process, format('%d %s', now, description)) end
local found = {}
local noted = call('HGETALL', key)
for index = 1, #noted, 2 do
  local at, text = string.match(noted[index + 1], '^(%d+) (.*)$')
  -- A time in the future is from before the clock was set back.
  local age = now - tonumber(at or 0)
  if age < lifeMs and age > -lifeMs then found[#found + 1] = text else call('HDEL', key, noted[index]) end
end
call('PEXPIRE', key, lifeMs)
return found
