#!lua
local clock = redis.call('TIME')
-- Decides whether a request is admitted, and when that was, by Redis's clock alone: its caller has to be the one that the
-- account's version stands for. That version is a copy of the store's. It may be missing; it is never one that was
-- overtaken, because whoever changes the account deletes it first (ingress/revocation).
-- KEYS[1]  string: the account's version
-- KEYS[2]  string: fill token, under which the store is read in order to fill a missing version
-- KEYS[3]  sorted set: changes to the account under way, by when their marks end, milliseconds of this clock
-- ARGV[1]  version of the caller at hand; -1 where there is none
-- ARGV[2]  'known': it was read at some time; 'read': it was read from the store after this request was told to
-- ARGV[3]  token: what the answer `reread` came with; for 'known' an id of this request
-- ARGV[4]  versionLifeMs: how long a version stands after its last use
-- ARGV[5]  readLifeMs: longer than reading the store may take
-- returns  {'current', now}: the caller stands. {'reread', now, token}: read it from the store, then call again with 'read'
--           and this token
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local version, how, token = ARGV[1], ARGV[2], ARGV[3]
local versionLifeMs, readLifeMs = tonumber(ARGV[4]), tonumber(ARGV[5])

-- A mark that ends later than any mark could was set by a clock that has since been put back.
local changing = redis.call('ZCOUNT', KEYS[3], '(' .. now, now + 60000) > 0

if how == 'read' then
  -- Only a reading that no change has come between may fill: each change deletes the token, before and after.
  if not changing and redis.call('GET', KEYS[2]) == token then
    redis.call('SET', KEYS[1], version, 'PX', versionLifeMs)
    redis.call('DEL', KEYS[2])
  end
  return {'current', now}
end

if changing then return {'reread', now, token} end
if redis.call('GET', KEYS[1]) == version then
  redis.call('PEXPIRE', KEYS[1], versionLifeMs)
  return {'current', now}
end
-- All who read at once share one token, or those who come while another reads would keep each other from ever filling. Who
-- joins a token began to read after it was set, like whoever set it.
local standing = redis.call('GET', KEYS[2])
if not standing then redis.call('SET', KEYS[2], token, 'PX', readLifeMs) end
return {'reread', now, standing or token}
