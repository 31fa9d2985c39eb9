-- A part of the scripts that refund a charge (load-lua.ts): does for the key of a request what correct-counters.lua does for its account. It is
-- included in the branch that uses it.
local function correctKey(keyCountersKey, month, bucket, requests, held, used)
  local call, format = redis.call, string.format
  local usedField, reservedField = month .. ':used', month .. ':reserved'
  local window, usedBefore, reservedBefore = unpack(call('HMGET', keyCountersKey, 'window', usedField, reservedField))
  local buckets = window and cjson.decode(window) or {}
  for _, each in ipairs(buckets) do
    if each[1] == tonumber(bucket) then
      each[2], each[3] = each[2] + requests, each[3] + used - held
      call('HSET', keyCountersKey, 'window', cjson.encode(buckets))
    end
  end
  if usedBefore then
    call('HSET', keyCountersKey, usedField, format('%d', usedBefore + used), reservedField, format('%d', reservedBefore - held))
  end
end
