#!lua flags=allow-oom
-- Records that text of a run is being sent to the client: from now on no other run may begin (contract.md#n5-streaming-mark). Runs also
-- when Redis is out of memory.
-- args     request, run
-- returns  1, or 0 if the lease has ended or belongs to another run
-- include ../../shared/limits/parts/lease
local text = redis.call('HGET', leasesKey, request)
local lease = text and unpackLease(text)
if not lease or lease.run ~= tonumber(run) then return 0 end
lease.state = 'streaming'
redis.call('HSET', leasesKey, request, packLease(lease))
return 1
