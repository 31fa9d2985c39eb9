-- A part of the scripts that check a caller (load-lua.ts). It needs call, now, versionKey, fillKey, changesKey; version: that of the caller
-- that was read, -1 for none; isRead: it was read from the store after the answer `stale`; token: the one in that answer, otherwise an id of
-- this request. It returns from the script with `stale` token if the caller may be outdated: its version is not the account's. Read it from the
-- store, then call again with isRead and this token.
-- The version is a copy of the store's. It may be missing. It is never outdated (contract.md#c17-marks-of-changes): every change of the
-- account deletes it first (shared/account-changes), and nothing fills it while a change is marked.
if isRead or call('GET', versionKey) ~= version then
  -- A mark that expires later than the longest life of a mark was set before the clock was set back.
  local changing = call('ZCOUNT', changesKey, '(' .. now, now + 60000) > 0
  if not isRead then
    -- Concurrent readers share one token. With one token each, they would replace each other's token, and no reader could ever fill. A
    -- reader that joins starts to read after the token was set, so its read is as recent as the first reader's.
    local shared = not changing and call('GET', fillKey)
    if not shared and not changing then call('SET', fillKey, token, 'PX', readLifeMs) end
    return 'stale ' .. (shared or token)
  end
  -- A read may fill only if no change happened in between: each change deletes the token, before and after.
  if not changing and call('GET', fillKey) == token then
    call('SET', versionKey, version, 'PX', versionLifeMs)
    call('DEL', fillKey)
  end
end
