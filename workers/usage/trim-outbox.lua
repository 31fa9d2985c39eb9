#!lua flags=allow-oom
-- Takes out of an outbox what the store has had for a while, and notes up to where in the same step: a reader of the marks
-- can tell whether something it has not seen is gone. Never what has not been drained.
-- KEYS[1]  stream: the outbox
-- KEYS[2]  hash: its marks; `drained` and `trimmed` are stream ids
-- ARGV[1]  id: of the last entry to go
-- returns  how many entries went
-- include ../../shared/limits/parts/stream-ids
local marks = redis.call('HMGET', KEYS[2], 'drained', 'trimmed')
local drained, trimmed = marks[1] or '0-0', marks[2] or '0-0'
local last = ARGV[1]
if isAfter(last, drained) then last = drained end
if not isAfter(last, trimmed) then return 0 end

redis.call('HSET', KEYS[2], 'trimmed', last)
local milliseconds, sequence = partsOf(last)
return redis.call('XTRIM', KEYS[1], 'MINID', '=', string.format('%.0f-%.0f', milliseconds, sequence + 1))
