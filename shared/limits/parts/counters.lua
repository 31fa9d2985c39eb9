-- A part of the scripts that read or change limit counters (load-lua.ts). A holder of limits is an account, or a key of it that has limits
-- of its own. The counters of each are a hash: `window`, its last minute; `day` and `dayRequests`; and for this month and the last
-- `<YYYY-MM>:chargedTokens`, `:reservedTokens` and `:overageTokens` (of a key always 0), unless its month is neither limited nor shown. A
-- key also has `countedAt`, when a month was last counted from the store. An account also has what it keeps for repeats (kept-bytes.lua).
-- The window is a list of buckets of 5 s, oldest first: [when it was first charged, requests, tokens, when it was last charged]. The
-- buckets of a key begin when those of its account do. A bucket leaves in one piece, 60 s after its last charge, so every charge in it
-- counts for at least 60 s (contract.md#e1-rolling-minute, decisions.md#a-ring-of-5-s-buckets). The list is JSON without spaces. Its sums
-- of requests and tokens follow, each after a space; without them they are not known. Most calls change the window as text, because
-- decoding and encoding 12 buckets takes longer than the rest of an admission (decisions.md#windows-as-text).
local bucketMs, windowMs, dayMs = 5000, 60000, 86400000
local countersLifeMs = 62 * dayMs
-- A month of a key that is not counted here any more is counted from the store.
local keyCountersLifeMs = 2 * dayMs
-- How long a request is remembered as lost or settled past its deadline.
local lostLifeMs = 3600000
