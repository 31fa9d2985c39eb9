#!lua
-- Lowers turns by half of their range, so that turns never run out while jobs wait (contract.md#o7-range-of-turns). If the head of the
-- queue is in the upper half, it lowers all turns of the rank. Otherwise it lowers the turns that are too far ahead of the head: an ingress
-- gave them before it knew that turns had been lowered. Jobs keep their order.
-- keys     jobsKey: BullMQ's jobs with a priority, by priority * 2^32 + a number that counts up
-- args     lowest, highest: the scores of the rank
-- returns  how many were lowered
local call, format = redis.call, string.format
local head = call('ZRANGE', jobsKey, lowest, highest, 'BYSCORE', 'LIMIT', 0, 1, 'WITHSCORES')[2]
if not head then return 0 end
local half, first = halfOfTurns * scoreOfPriority, tonumber(lowest) + scoreOfPriority
local from = tonumber(head)
if from < tonumber(lowest) + half then from = from + turnsAheadMax * scoreOfPriority end
local jobs = call('ZRANGE', jobsKey, format('%d', from), highest, 'BYSCORE', 'WITHSCORES')
for index = 1, #jobs, 2 do
  local score = tonumber(jobs[index + 1])
  call('ZADD', jobsKey, format('%d', math.max(score - half, first + score % scoreOfPriority)), jobs[index])
end
return #jobs / 2
