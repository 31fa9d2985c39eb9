#!lua flags=allow-oom
-- Records that text of a run is being sent to the client: from now on no other run may begin (contract.md#n5-streaming-mark). Runs also
-- when Redis is out of memory.
-- KEYS[1]  hash: the account's leases (leases.lua)
-- ARGV     request, run
-- returns  1, or 0 if the lease has ended or belongs to another run
local request, run = ARGV[1], ARGV[2]
local text = redis.call('HGET', KEYS[1], request)
if not text then return 0 end

local runOf, rest = string.match(text, '^{"state":"%a+","run":(%d+)(),')
if runOf then
  if runOf ~= run then return 0 end
  text = '{"state":"streaming","run":' .. run .. string.sub(text, rest)
else
  local lease = cjson.decode(text)
  if lease.run ~= tonumber(run) then return 0 end
  lease.state = 'streaming'
  text = cjson.encode(lease)
end
redis.call('HSET', KEYS[1], request, text)
return 1
