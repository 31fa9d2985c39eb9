#!lua flags=allow-oom
local clock = redis.call('TIME')
-- Notes a process of the fleet with its load, or removes it, and returns every process that was noted in the last lifeMs. Removes the others.
-- Adds what it has counted to the counts of the present steps of time.
-- keys     fleetKey has for each process `<milliseconds of this clock> <its description>`, fleetLoadKey its load; minutesKey and hoursKey, the
--          counts of the steps, left out if it has counted nothing
-- args     process; its description and its load, left out if it leaves; sums, to be added, and highest, of which the higher is kept: each
--          JSON, names and values by turns
-- returns  the descriptions
local call, floor, format = redis.call, math.floor, string.format
local now = clock[1] * 1000 + floor(clock[2] / 1000)

if minutesKey then
  local added, raised = cjson.decode(sums), cjson.decode(highest)
  for key, keptMs in pairs({[minutesKey] = minutesKeptMs, [hoursKey] = hoursKeptMs}) do
    for index = 1, #added, 2 do call('HINCRBY', key, added[index], added[index + 1]) end
    for index = 1, #raised, 2 do
      local known = tonumber(call('HGET', key, raised[index]) or 0)
      if tonumber(raised[index + 1]) > known then call('HSET', key, raised[index], raised[index + 1]) end
    end
    call('PEXPIRE', key, format('%d', keptMs))
  end
end

if not description then
  call('HDEL', fleetKey, process)
  call('HDEL', fleetLoadKey, process)
else
  call('HSET', fleetKey, process, format('%d %s', now, description))
  call('HSET', fleetLoadKey, process, load)
end
local found = {}
local noted = call('HGETALL', fleetKey)
for index = 1, #noted, 2 do
  local at, text = string.match(noted[index + 1], '^(%d+) (.*)$')
  -- A time in the future is from before the clock was set back.
  local age = now - tonumber(at or 0)
  if age < lifeMs and age > -lifeMs then
    found[#found + 1] = text
  else
    call('HDEL', fleetKey, noted[index])
    call('HDEL', fleetLoadKey, noted[index])
  end
end
call('PEXPIRE', fleetKey, lifeMs)
call('PEXPIRE', fleetLoadKey, lifeMs)
return found
