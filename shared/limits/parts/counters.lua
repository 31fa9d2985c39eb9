-- A part of the scripts that read or change the limit counters of an account (load-lua.ts).
-- The counters are a hash: `window`, the last minute as JSON; `day` and `dayRequests`; and for this month and the last
-- `<YYYY-MM>:used`, `:reserved` and `:overage`, all in tokens; and what is kept for repeats (kept-bytes.lua).
-- The window is a list of buckets of 5 s, oldest first: [when it was first charged, requests, tokens, when it was last
-- charged]. A bucket leaves in one piece, 60 s after its last charge, so every charge in it counts for at least 60 s
-- (contract.md#e1-rolling-minute, decisions.md#a-ring-of-5-s-buckets). Its text starts with a space, which says that `minuteRequests` and
-- `minuteTokens` hold its sums, and has no other space. Most calls change the window as text, because decoding and encoding 12 buckets
-- takes longer than the rest of an admission.
local bucketMs, windowMs, dayMs = 5000, 60000, 86400000
local countersLifeMs = 62 * dayMs
-- A month of a key that is not counted here any more is counted from the store.
local keyCountersLifeMs = 2 * dayMs
local recountMs = 3600000
