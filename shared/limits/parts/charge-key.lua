-- A part of admit.lua: charges the key of the request, like its account.
if isCounted then
  local latest = keyBuckets[#keyBuckets]
  if not latest or latest[1] ~= tonumber(bucket) then
    latest = {tonumber(bucket), 0, 0, at}
    keyBuckets[#keyBuckets + 1] = latest
  end
  latest[2], latest[3], latest[4] = latest[2] + 1, latest[3] + tokens, at
  keyRequests, keyTokens = keyRequests + 1, keyTokens + tokens
  local texts = {}
  for index, each in ipairs(keyBuckets) do texts[index] = format('[%d,%d,%d,%d]', unpack(each)) end
  call('HSET', keyCountersKey, 'window', ' [' .. table.concat(texts, ',') .. ']', 'minuteRequests', format('%d', keyRequests),
    'minuteTokens', format('%d', keyTokens))
end
if keyPerMonth ~= '-1' then
  keyReserved = keyReserved + tokens
  call('HSET', keyCountersKey, reservedField, format('%d', keyReserved))
end
call('PEXPIRE', keyCountersKey, keyCountersLifeMs)
