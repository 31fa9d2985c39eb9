#!lua flags=allow-oom
-- Raises the highest use of an account's limits in a step of time, and forgets the steps before the last hour.
-- keys     peaksKey has for each step `<requests> <tokens> <at once>`: the most within a minute, and at one moment
-- args     step, its number; firstStep, the first that is kept; requests; tokens; atOnce; lifeMs of the key
local call = redis.call
local known = call('HGET', peaksKey, step)
if known then
  local hadRequests, hadTokens, hadAtOnce = string.match(known, '^(%d+) (%d+) (%d+)$')
  requests = math.max(tonumber(requests), tonumber(hadRequests or 0))
  tokens = math.max(tonumber(tokens), tonumber(hadTokens or 0))
  atOnce = math.max(tonumber(atOnce), tonumber(hadAtOnce or 0))
else
  for _, each in ipairs(call('HKEYS', peaksKey)) do
    if tonumber(each) < tonumber(firstStep) then call('HDEL', peaksKey, each) end
  end
end
call('HSET', peaksKey, step, string.format('%d %d %d', requests, tokens, atOnce))
call('PEXPIRE', peaksKey, lifeMs)
