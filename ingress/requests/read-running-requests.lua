#!lua flags=no-writes
-- Reads the leases of an account, or that of one request.
-- keys     leasesKeys: of each lane
-- args     request, left out for all
-- returns  a list of JSON: request, and state, admittedAt and report of its lease (shared/limits/parts/lease.lua)
-- include ../../shared/limits/parts/lease
local found = {}
local function add(id, text)
  if not text then return end
  local lease = unpackLease(text)
  found[#found + 1] = cjson.encode({request = id, state = lease.state, admittedAt = lease.admittedAt, report = lease.report})
end
for _, key in ipairs(leasesKeys) do
  if request then add(request, redis.call('HGET', key, request))
  else
    local leases = redis.call('HGETALL', key)
    for index = 1, #leases, 2 do add(leases[index], leases[index + 1]) end
  end
end
return found
