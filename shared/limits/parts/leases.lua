-- A part of the scripts that manage leases (load-lua.ts).
-- A lease is JSON (contract.md#n1-lease): `state` (admitted, started, streaming); `run` of its latest start, how often its job was `taken`
-- then, and the `answer` to that; startBy, deadline; `tokens` that it holds; the `bucket` (its first charge), `day` and `month` that it was
-- charged to; `overage`; admittedAt; the `key` that it was charged to, if that has limits (only its month, if `keyMonthOnly`); the bytes
-- that it reserves to `keep` its answer, if it has an idempotency key; and `report`, its usage record if it expires. Its members keep this
-- order, without spaces, until a script decodes and encodes it, as a second start of its job does. So most scripts read it by a pattern and
-- replace only its beginning (decisions.md#leases-and-windows-as-text).
-- Decoding and encoding a lease takes cjson 10 µs.
local lostLifeMs = 3600000
