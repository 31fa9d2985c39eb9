#!lua flags=allow-oom
local clock = redis.call('TIME')
-- Notes a process of the fleet with its load, or removes it, and returns every process that was noted in the last lifeMs. Removes the others,
-- and the load of every process that is not noted.
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
else
  call('HSET', key, process, format('%d %s', now, description))
  call('HSET', loads, process, load)
end
local found, alive = {}, {}
local noted = call('HGETALL', key)
for index = 1, #noted, 2 do
  local at, text = string.match(noted[index + 1], '^(%d+) (.*)$')
  -- A time in the future is from before the clock was set back.
  local age = now - tonumber(at or 0)
  if age < lifeMs and age > -lifeMs then
    found[#found + 1] = text
    alive[noted[index]] = true
  else
    call('HDEL', key, noted[index])
  end
end
-- The release before removes processes, and knows of no loads.
for _, id in ipairs(call('HKEYS', loads)) do
  if not alive[id] then call('HDEL', loads, id) end
end
call('PEXPIRE', key, lifeMs)
call('PEXPIRE', loads, lifeMs)
return found
