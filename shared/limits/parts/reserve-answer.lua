-- A part of admit.lua: how many bytes the request reserves for its answer (`keep`), by how many its account would then exceed its budget
-- (`keptOver`), and how many all accounts may still reserve (`keptRoom`, contract.md#ho1-budgets-of-kept-answers).
local kept, reservedNow = unpack(call('HMGET', countersKey, 'kept', 'keeping'))
keeping = tonumber(reservedNow or 0)
if kept then
  -- A claim counts for claimBytes at least. So removing this many expired answers makes room for any reservation: the decision is exact.
  local expired, freed = call('ZRANGEBYSCORE', keptAnswersKey, '-inf', now, 'LIMIT', 0, keepBytes / claimBytes), 0
  if expired[1] then
    for _, answer in ipairs(expired) do freed = freed + match(answer, '%d+$') end
    call('ZREM', keptAnswersKey, unpack(expired))
    kept = call('HINCRBY', countersKey, 'kept', -freed)
  end
  if call('EXISTS', keptAnswersKey) == 0 then
    call('HDEL', countersKey, 'kept')
    kept = 0
  end
end
if keeping ~= 0 and leases == 0 then
  call('HDEL', countersKey, 'keeping')
  keeping = 0
end
keptRoom = call('GET', keptRoomKey)
keep = (not keptRoom or tonumber(keptRoom) >= tonumber(keepBytes)) and tonumber(keepBytes) or claimBytes
keptOver = (kept or 0) + keeping + keep - keptBytesMax
