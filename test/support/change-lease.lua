#!lua
-- Changes fields of a lease, or writes one.
-- args     request; fields: JSON
-- include ../../shared/limits/parts/lease
local text = redis.call('HGET', leasesKey, request)
local lease = text and unpackLease(text) or {}
for name, value in pairs(cjson.decode(fields)) do lease[name] = value end
redis.call('HSET', leasesKey, request, packLease(lease))
return cjson.encode(lease)
