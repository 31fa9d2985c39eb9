-- A part of admit.lua: charges the key of the request, like its account.
if isCounted then
  local latest = keyBuckets[#keyBuckets]
  if not latest or latest[1] ~= tonumber(bucket) then
    latest = {tonumber(bucket), 0, 0, at}
    keyBuckets[#keyBuckets + 1] = latest
  end
  latest[2], latest[3], latest[4] = latest[2] + 1, latest[3] + tokens, at
  keyRequests, keyTokens = keyRequests + 1, keyTokens + tokens
  call('HSET', keyCountersKey, 'window', cjson.encode(keyBuckets))
end
if keyPerMonth ~= '-1' then
  keyReserved = keyReserved + tokens
  call('HSET', keyCountersKey, usedField, format('%d', keyUsed), reservedField, format('%d', keyReserved))
end
call('PEXPIRE', keyCountersKey, keyPerMonth ~= '-1' and keyCountersLifeMs or 2 * windowMs)
