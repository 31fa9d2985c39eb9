#!lua flags=allow-oom
-- Notes up to where an outbox is in the store. Only forward: who was slow, or died and was overtaken, takes nothing back.
-- KEYS[1]  hash: marks of the outbox; `drained` is the id of the last entry that is in the store
-- ARGV[1]  id: of an entry up to which all are in the store
-- returns  nothing
-- include ../../shared/limits/parts/stream-ids
local drained = redis.call('HGET', KEYS[1], 'drained') or '0-0'
if isAfter(ARGV[1], drained) then redis.call('HSET', KEYS[1], 'drained', ARGV[1]) end
