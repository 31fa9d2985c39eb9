-- A part of the scripts that read or change the standing of an account (read-lua.ts).
-- The standing is a hash: `window`, the last minute as JSON; `day` and `dayRequests`; and for this month and the last
-- `<YYYY-MM>:used`, `:reserved` and `:overage`, all of them tokens.
-- The window is a list of buckets of 5 s, oldest first: [when it was first charged, requests, tokens, when it was last
-- charged]. A bucket leaves as a whole, 60 s after it was last charged, so that whatever it holds counts for at least as long.
-- Its text has a space in front where `minuteRequests` and `minuteTokens` are its sums, and no other space. A script of the
-- release before writes it without, and without the sums, which are then counted again. So most calls need not decode the
-- window, and change it as text: decoding and encoding 12 buckets takes longer than all the rest of an admission.
local bucketMs, windowMs, dayMs = 5000, 60000, 86400000
local standingLifeMs = 62 * dayMs
