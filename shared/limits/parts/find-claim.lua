-- A part of the scripts that find the claim of an idempotency key (load-lua.ts). It needs call, claimKey (nil without such a key), bodyMarks,
-- leasesKey, lostRequestsKey, request, withCounters and repeatsFree, and returns from the script if another request has claimed the key
-- (contract.md#h1-idempotency-keys): `repeated` how request counters; how: `mismatch`, its body was another one; `running`; `kept`, its
-- answer is in the claim; `lost`, it was charged and has no answer. A claim whose request has ended without a charge does not count.
-- A claim is a hash: `request`; `body`, the mark of its body; once that has ended with a charge, `ended` (kept or lost) and `answer`; and
-- `repeats`, how often it was repeated: each call counts, also a second one for the same request. After repeatsFree times the script
-- continues, with these words in `repeated`.
local repeated
if claimKey then
  local first, body, ended = unpack(call('HMGET', claimKey, 'request', 'body', 'ended'))
  if first and first ~= request then
    local how = ended
    -- Without a lease: if it is among the lost requests, its lease has expired and nothing was charged. If not, it may have been charged.
    if not ended and call('HEXISTS', leasesKey, first) == 1 then how = 'running'
    elseif not ended and not call('ZSCORE', lostRequestsKey, first) then how = 'lost' end
    if how and not string.find(' ' .. bodyMarks .. ' ', ' ' .. body .. ' ', 1, true) then how = 'mismatch' end
    if how then
      repeated = format('repeated %s %s', how, first)
      if call('HINCRBY', claimKey, 'repeats', 1) <= repeatsFree then return withCounters(repeated) end
    end
  end
end
