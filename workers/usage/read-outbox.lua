#!lua flags=no-writes
local clock = redis.call('TIME')
-- Reads the length of an outbox and its oldest entry that is not in the store.
-- returns  JSON: length; oldest: the id of the first entry that is not in the store, empty if there is none; upTo: the id of the last
--          entry that is; now: milliseconds
local drained = redis.call('HGET', outboxMarksKey, 'drained') or '0-0'
local waiting = redis.call('XRANGE', outboxKey, '(' .. drained, '+', 'COUNT', 1)
return cjson.encode({length = redis.call('XLEN', outboxKey), oldest = waiting[1] and waiting[1][1] or '', upTo = drained,
  now = clock[1] * 1000 + math.floor(clock[2] / 1000)})
