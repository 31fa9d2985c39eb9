#!lua flags=allow-oom
local clock = redis.call('TIME')
-- Renews one worker's shares of its backends' limits, which apply to the whole fleet. A share is a number of concurrent calls. A
-- grant never takes what another worker holds, so the shares of a backend never exceed its limit (contract.md#o3-shares). A worker with
-- more calls in flight than it is granted holds as many until they end. A share expires shareMs after its last renewal, except if no worker
-- could renew because Redis was unavailable: then each worker gets back what it held (contract.md#o4-expiry-of-shares). Runs also when
-- Redis is out of memory.
-- keys     sharesKey has `worker <id>`: JSON, its pools, the number of its last renewal, and its shares by backend: [held, hungry (0 or 1), batch];
--          `backend <name>`: sums of these: workers held hungry heldByHungry batch short (hungry ones with less than their part)
--          running (calls in flight), askedAt: when a client last called it; starvedAt and starvedBy: pools whose workers want it and
--          hold none of it;
--          `busy <name>`: limit: how many calls it has shown to have room for, 0 if that is not known; when it was last busy; when
--          this limit has last grown; how long after a refusal it grows; until when no call starts there, and why: `busy`, `loading`,
--          `account` or `-` (contract.md#ms2-busy-and-loading);
--          `held <name> of <pools>`: calls that workers of exactly these pools hold, of a backend that models of several pools have;
--          `pool <name>`: how many workers it has, and which of them looks for stalled jobs;
--          `renewedAt`: any share; `steadySince`: renewals have come without a gap; `grantFrom`: nothing is granted before
-- constants pauseMsMax; limitMax: a larger limit is none; growMs and waitMsMax: the shortest and the longest wait until the limit of a backend
--          that was busy grows; doubleAfterMs and forgetMs: when it doubles, and when it is forgotten; shareMs; gapMs: longer than a pause
--          between two renewals while Redis and a worker are available; askedForMs: how long lines of batches leave room after a client's
--          call; lifeMs of the keys
-- args     worker; mode: `new`, `known` (it has renewed before) or `leaves`; number: of this renewal; pools: their names; uses: JSON, for each
--          backend: name; limit (0: none); batchMax: what lines of batches may use of it; inFlight; need: `wants` (jobs wait for it), `idle`
--          (none waits) or `stops` (it takes no more jobs); and if so, isAsked: a client has called it in the last seconds; isOfSeveral: models
--          of several pools have it; isPreferred: requests may need it and no other; busyCalls: how many calls of the worker were in flight when it was busy; pauseKind: why it has paused
--          since the last renewal, and pauseMs from now
-- returns  JSON: pools: of each how many workers it has, and checksStalled: this one looks for stalled jobs; shares: of each backend the calls
--          (-1: no limit), batchCalls: how many of them lines of batches may use, elsewhere: the calls in flight of other workers, and
--          the pause that it makes, with leftMs from now
local call, ceil, floor, max, min = redis.call, math.ceil, math.floor, math.max, math.min
local format, match = string.format, string.match
number, uses = tonumber(number), cjson.decode(uses)
local now = clock[1] * 1000 + floor(clock[2] / 1000)

-- What every renewal reads, with one command. The rest is needed only if a worker has died.
local fieldsRead = {'renewedAt', 'steadySince', 'grantFrom', 'worker ' .. worker}
for _, pool in ipairs(pools) do fieldsRead[#fieldsRead + 1] = 'pool ' .. pool end
local ownPools = table.concat(pools, ',')
local function heldField(name, ofPools) return 'held ' .. name .. ' of ' .. ofPools end
for _, use in ipairs(uses) do
  fieldsRead[#fieldsRead + 1] = 'backend ' .. use.name
  fieldsRead[#fieldsRead + 1] = 'busy ' .. use.name
  if use.isOfSeveral then fieldsRead[#fieldsRead + 1] = heldField(use.name, ownPools) end
end
local texts = {}
for index, text in ipairs(call('HMGET', sharesKey, unpack(fieldsRead))) do texts[fieldsRead[index]] = text end
local function read(field)
  if texts[field] == nil then texts[field] = call('HGET', sharesKey, field) end
  return texts[field]
end

local backends, poolsByName, heldBy, busyness = {}, {}, {}, {}
local function backendOf(name)
  if not backends[name] then
    local workers, held, hungry, heldByHungry, batch, short, running, askedAt, starvedAt, starvedBy =
      match(read('backend ' .. name) or '0 0 0 0 0 0 0 0 0 ', '(%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (.*)')
    backends[name] = {workers = tonumber(workers), held = tonumber(held), hungry = tonumber(hungry),
      heldByHungry = tonumber(heldByHungry), batch = tonumber(batch), short = tonumber(short), running = tonumber(running),
      askedAt = tonumber(askedAt),
      starvedAt = tonumber(starvedAt), starvedBy = starvedBy}
  end
  return backends[name]
end
local function poolOf(name)
  if not poolsByName[name] then
    local workers, checker = match(read('pool ' .. name) or '0 ', '(%d+) (.*)')
    poolsByName[name] = {workers = tonumber(workers), checker = checker}
  end
  return poolsByName[name]
end
local function heldOf(field)
  heldBy[field] = heldBy[field] or tonumber(read(field) or 0)
  return heldBy[field]
end
local function count(name, ofPools, sign, share)
  local backend, held, hungry, batch, short, isOfSeveral, running = backendOf(name), unpack(share)
  backend.workers, backend.held = backend.workers + sign, backend.held + sign * held
  backend.hungry, backend.batch = backend.hungry + sign * hungry, backend.batch + sign * batch
  backend.short, backend.running = backend.short + sign * short, backend.running + sign * running
  if hungry == 1 then backend.heldByHungry = backend.heldByHungry + sign * held end
  if isOfSeveral == 1 then
    local field = heldField(name, ofPools)
    heldBy[field] = heldOf(field) + sign * held
  end
end
local isRepeated = false
local function takeOut(id)
  local text = read('worker ' .. id)
  if not text then return end
  local known = cjson.decode(text)
  if id == worker then isRepeated = known.number == number end
  for name, share in pairs(known.shares) do count(name, table.concat(known.pools, ','), -1, share) end
  for _, name in pairs(known.pools) do
    local pool = poolOf(name)
    pool.workers = pool.workers - 1
    if pool.checker == id then pool.checker, pool.wasOwn = '', id == worker end
  end
  if id == worker and mode ~= 'leaves' then return end
  call('HDEL', sharesKey, 'worker ' .. id)
  call('ZREM', sharesExpiryKey, id)
end

local renewedAt, steadySince = tonumber(read('renewedAt') or nil), tonumber(read('steadySince') or 0)
local grantFrom = tonumber(read('grantFrom') or 0)
-- Redis has lost its data: the calls in flight of other workers are not known yet.
if not renewedAt and mode == 'known' then grantFrom = now + shareMs end
if renewedAt and (now - renewedAt > gapMs or renewedAt > now + gapMs) then steadySince = now end
-- Times of a clock that was set back.
steadySince, grantFrom = min(steadySince, now), min(grantFrom, now + shareMs)
if renewedAt and renewedAt > now then
  for _, id in ipairs(call('ZRANGEBYSCORE', sharesExpiryKey, '(' .. format('%d', now + shareMs), '+inf')) do
    call('ZADD', sharesExpiryKey, format('%d', now + shareMs), id)
  end
end
takeOut(worker)
if now - steadySince >= shareMs then
  for _, id in ipairs(call('ZRANGEBYSCORE', sharesExpiryKey, '-inf', format('%d', now))) do
    if id ~= worker then takeOut(id) end
  end
end

-- How many calls a backend has room for, as its refusals show: those of the fleet when it was busy, less one. What other workers have in
-- flight is known as of their last renewal, so one refusal lowers a known limit by a quarter, or by one, at most. waitMs after a refusal it
-- grows by one, then once a second, and soon doubles. If it is refused as soon as it has grown, it is right: the next try, which costs a
-- pause, comes later each time.
local function busyOf(name, configured, busyCalls, kind, pauseMs)
  local text = read('busy ' .. name)
  if not text and busyCalls == 0 and kind == '-' then return {limit = 0, pausedUntil = 0, kind = '-'} end
  local limit, busyAt, grownAt, waitMs, pausedUntil, pausedFor =
    match(text or format('0 0 0 %d 0 -', growMs), '(%d+) (%d+) (%d+) (%d+) (%d+) (%S+)')
  local busy = {limit = tonumber(limit), busyAt = min(tonumber(busyAt), now), grownAt = min(tonumber(grownAt), now),
    waitMs = tonumber(waitMs), pausedUntil = min(tonumber(pausedUntil), now + pauseMsMax), kind = pausedFor}
  local hasGrown = busy.grownAt > busy.busyAt
  if busyCalls > 0 then
    local seen = max(1, backendOf(name).running + busyCalls - 1)
    if busy.limit > 0 and hasGrown then busy.waitMs = min(max(2 * busy.waitMs, 20 * pauseMs), waitMsMax) end
    busy.limit = busy.limit > 0 and min(busy.limit, max(seen, min(busy.limit - 1, ceil(busy.limit * 3 / 4)))) or seen
    busy.busyAt, busy.grownAt = now, now
  elseif busy.limit > 0 and now - busy.grownAt >= (hasGrown and growMs or busy.waitMs) then
    local isFree = hasGrown and now - busy.busyAt >= busy.waitMs + doubleAfterMs
    if hasGrown then busy.waitMs = growMs end
    busy.limit = isFree and busy.limit * 2 or busy.limit + 1
    busy.grownAt = now
  end
  if now - busy.busyAt >= forgetMs or busy.limit >= (configured > 0 and configured or limitMax) then busy.limit = 0 end
  if kind ~= '-' and now + pauseMs > busy.pausedUntil then busy.pausedUntil, busy.kind = now + pauseMs, kind end
  busyness[name] = busy
  return busy
end
local function batchMaxOf(limit) return limit == 1 and 1 or limit - max(1, floor(limit / 8)) end

local answer, known = {shares = {}, pools = {}}, {shares = {}, pools = {}, number = number}
for index, name in ipairs(mode == 'leaves' and {} or pools) do
  local pool = poolOf(name)
  pool.workers = pool.workers + 1
  if pool.wasOwn or pool.checker == '' then pool.checker = worker end
  known.pools[index] = name
  answer.pools[name] = {workers = pool.workers, checksStalled = pool.checker == worker}
end
for _, use in ipairs(mode == 'leaves' and {} or uses) do
  local name, configured, batchMax, inFlight, need = use.name, use.limit, use.batchMax, use.inFlight, use.need
  local isOfSeveral = use.isOfSeveral and 1 or 0
  local isNews = not isRepeated
  local busy = busyOf(name, configured, isNews and use.busyCalls or 0, isNews and use.pauseKind or '-', use.pauseMs or 0)
  local limit = configured
  if busy.limit > 0 then limit, batchMax = busy.limit, batchMaxOf(busy.limit) end
  local backend, hungry = backendOf(name), need == 'wants' and 1 or 0
  local elsewhere = backend.running
  if use.isAsked then backend.askedAt = now end
  local share, calls, batchCalls
  if limit == 0 then
    share, calls, batchCalls = {inFlight, 0, 0, 0, isOfSeveral, inFlight}, -1, -1
  else
    local fair, wanted = ceil(limit / (backend.workers + 1)), inFlight
    -- What workers without waiting jobs leave, divided among the others. Rounded up, so that all of it is used, and rounded down while
    -- one of them has less than its part.
    local part = (limit - (backend.held - backend.heldByHungry)) / (backend.hungry + 1)
    local partMin = max(1, floor(part))
    if need == 'wants' then
      wanted = backend.short > 0 and partMin or max(fair, ceil(part))
    elseif need == 'idle' and backend.hungry > 0 then
      -- While jobs wait in other workers, a worker without waiting jobs keeps one more call than it has in flight, within its fair share.
      wanted = min(floor(limit / (backend.workers + 1)), inFlight + 1)
    elseif need == 'idle' then
      -- No worker waits: each keeps what it has in flight and its part of what is free. Where requests need a certain backend, half of what
      -- is free stays for the next worker that asks.
      local parts = (use.isPreferred and backend.workers > 0) and 2 * (backend.workers + 1) or backend.workers + 1
      wanted = inFlight + ceil(max(0, limit - elsewhere - inFlight) / parts)
    end
    if now < grantFrom then wanted = min(wanted, inFlight) end
    -- Workers of one set of pools take jobs of the same queues, so one of them is enough. If those of another set have none, a call is
    -- left for them.
    local isStarved = backend.starvedBy ~= '' and backend.starvedAt <= now and now - backend.starvedAt < gapMs
    local isOthersTurn = isStarved and backend.starvedBy ~= ownPools
    local granted = min(wanted, max(0, limit - backend.held - (isOthersTurn and 1 or 0)))
    if use.isOfSeveral and not isOthersTurn then
      local isHeld = max(granted, inFlight, heldOf(heldField(name, ownPools))) > 0
      if isHeld then backend.starvedBy = '' elseif need == 'wants' then backend.starvedBy, backend.starvedAt = ownPools, now end
    end
    local isAsked = backend.askedAt <= now and now - backend.askedAt < askedForMs
    local batchLimit = isAsked and batchMax or limit
    local batch = min(granted, max(0, batchLimit - backend.batch), ceil(granted * batchLimit / limit))
    local isShort = need == 'wants' and granted < partMin and 1 or 0
    share, calls, batchCalls = {max(granted, inFlight), hungry, batch, isShort, isOfSeveral, inFlight}, granted, batch
  end
  count(name, ownPools, 1, share)
  known.shares[name] = share
  answer.shares[name] = {calls = calls, batchCalls = batchCalls, elsewhere = elsewhere}
  if busy.kind ~= '-' and busy.pausedUntil > now then answer.shares[name].pause = {kind = busy.kind, leftMs = busy.pausedUntil - now} end
end

local fields = {'renewedAt', format('%d', now), 'steadySince', format('%d', steadySince), 'grantFrom', format('%d', grantFrom)}
local function set(field, text) fields[#fields + 1], fields[#fields + 2] = field, text end
if mode ~= 'leaves' then
  set('worker ' .. worker, cjson.encode(known))
  call('ZADD', sharesExpiryKey, format('%d', now + shareMs), worker)
end
for name, pool in pairs(poolsByName) do set('pool ' .. name, format('%d %s', pool.workers, pool.checker)) end
for name, sums in pairs(backends) do
  set('backend ' .. name, format('%d %d %d %d %d %d %d %d %d %s', sums.workers, sums.held, sums.hungry, sums.heldByHungry,
    sums.batch, sums.short, sums.running, sums.askedAt, sums.starvedAt, sums.starvedBy))
end
for name, busy in pairs(busyness) do
  if busy.limit == 0 and busy.pausedUntil <= now then call('HDEL', sharesKey, 'busy ' .. name)
  else set('busy ' .. name,
    format('%d %d %d %d %d %s', busy.limit, busy.busyAt, busy.grownAt, busy.waitMs, busy.pausedUntil, busy.kind)) end
end
for field, held in pairs(heldBy) do set(field, format('%d', held)) end
call('HSET', sharesKey, unpack(fields))
-- Once an hour is enough.
if mode == 'new' or not renewedAt or floor(renewedAt / 3600000) ~= floor(now / 3600000) then
  call('PEXPIRE', sharesKey, lifeMs)
  call('PEXPIRE', sharesExpiryKey, lifeMs)
end
return cjson.encode(answer)
