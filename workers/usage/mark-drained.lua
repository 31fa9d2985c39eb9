#!lua flags=allow-oom
-- Records up to which entry an outbox is in the store. The mark only moves forward, also if a slow worker was overtaken by another.
-- KEYS[1]  hash: marks of the outbox; `drained` is the id of the last entry that is in the store
-- ARGV[1]  id: the entry up to which all are in the store
-- returns  nothing
-- include ../../shared/limits/parts/stream-ids
local drained = redis.call('HGET', KEYS[1], 'drained') or '0-0'
if isAfter(ARGV[1], drained) then redis.call('HSET', KEYS[1], 'drained', ARGV[1]) end
