#!lua flags=allow-oom
-- Removes entries from an outbox that have been in the store for a while, and records the last one removed. A reader of the marks
-- can then detect that entries it has not seen are gone. Entries that are not drained are never removed.
-- args     last: the id of the last entry to remove
-- returns  how many entries were removed
-- include ../../shared/limits/parts/stream-ids
local marks = redis.call('HMGET', outboxMarksKey, 'drained', 'trimmed')
local drained, trimmed = marks[1] or '0-0', marks[2] or '0-0'
if isAfter(last, drained) then last = drained end
if not isAfter(last, trimmed) then return 0 end

redis.call('HSET', outboxMarksKey, 'trimmed', last)
local milliseconds, sequence = partsOf(last)
return redis.call('XTRIM', outboxKey, 'MINID', '=', string.format('%.0f-%.0f', milliseconds, sequence + 1))
