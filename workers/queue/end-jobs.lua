#!lua flags=allow-oom
local clock = redis.call('TIME')
-- Removes completed jobs from their queue, and counts them for its dashboard, as BullMQ does (moveToFinished, collectMetrics): all of them,
-- and those of each minute, the latest first.
-- args     prefix: of the keys of the queue; jobs: the id of each and the token of its lock, alternating
-- returns  the ids of those that were not removed, because this worker has no lock of them any more
local call = redis.call
local lost, ended = {}, 0
for index = 1, #jobs, 2 do
  local id, key = jobs[index], prefix .. jobs[index]
  if call('GET', key .. ':lock') == jobs[index + 1] and call('LREM', activeKey, -1, id) == 1 then
    call('DEL', key, key .. ':lock')
    call('SREM', stalledKey, id)
    ended = ended + 1
  else
    lost[#lost + 1] = id
  end
end
if ended == 0 then return lost end

local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local before = call('HINCRBY', countsKey, 'count', ended) - ended
local latest = call('HMGET', countsKey, 'prevTS', 'prevCount')
if not latest[1] then
  call('HSET', countsKey, 'prevTS', now, 'prevCount', 0)
  return lost
end
local minutes = math.min(math.floor(now / 60000) - math.floor(latest[1] / 60000), countedMinutes)
if minutes > 0 then
  local points = { before - latest[2] }
  for index = 2, minutes do points[index] = 0 end
  call('LPUSH', minutesKey, unpack(points))
  call('LTRIM', minutesKey, 0, countedMinutes - 1)
  call('HSET', countsKey, 'prevCount', before, 'prevTS', now)
end
return lost
