#!lua flags=no-writes
local clock = redis.call('TIME')
-- Reads the length of an outbox and its oldest entry that is not in the store.
-- KEYS[1]  stream: the outbox
-- KEYS[2]  hash: its marks; `drained` is the id of the last entry that is in the store
-- returns  {length, id, drained, now}: the id of the first entry that is not in the store, empty if there is none; `drained`; and the time
--          in milliseconds
local drained = redis.call('HGET', KEYS[2], 'drained') or '0-0'
local waiting = redis.call('XRANGE', KEYS[1], '(' .. drained, '+', 'COUNT', 1)
return {redis.call('XLEN', KEYS[1]), waiting[1] and waiting[1][1] or '', drained, clock[1] * 1000 + math.floor(clock[2] / 1000)}
