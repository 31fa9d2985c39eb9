#!lua flags=allow-oom
-- Notes that text of a run is on its way to the client: from here on no other run may begin. Runs also when Redis is out of
-- memory.
-- KEYS[1]  hash: the account's leases (leases.lua)
-- ARGV     request, run
-- returns  1, or 0 where the lease has ended or is another run's
local request, run = ARGV[1], tonumber(ARGV[2])
local lease = readLease(KEYS[1], request)
if not lease or lease.run ~= run then return 0 end
lease.state = 'streaming'
redis.call('HSET', KEYS[1], request, cjson.encode(lease))
return 1
