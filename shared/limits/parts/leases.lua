-- A part of the scripts that look after leases (read-lua.ts).
-- A lease is JSON: `state` (admitted, started, streaming); `run` of its latest start, how often its job was `taken` then, and
-- the `answer` to that; startBy, deadline; `tokens` that it holds; `bucket` (when that was begun), `day` and `month` that it was
-- charged to; `overage`; admittedAt; and `report`, its usage record if it expires.
-- Its members keep this order, without spaces, until a script decodes and encodes it, as those of the release before do. So most
-- scripts read it by a pattern and replace only its beginning. Decoding and encoding it takes cjson 10 µs.
local lostLifeMs = 3600000
