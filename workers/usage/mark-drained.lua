#!lua flags=allow-oom
-- Records up to which entry an outbox is in the store. The mark only moves forward, also if a slow worker was overtaken by another.
-- args     upTo: the id of the entry up to which all are in the store
-- returns  nothing
-- include ../../shared/limits/parts/stream-ids
local drained = redis.call('HGET', outboxMarksKey, 'drained') or '0-0'
if isAfter(upTo, drained) then redis.call('HSET', outboxMarksKey, 'drained', upTo) end
