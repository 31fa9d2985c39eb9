-- A part of the scripts that read or write leases (load-lua.ts). Nothing else knows how a lease is written, except that texts stand in it
-- unchanged: seed.lua looks for the id of a key (decisions.md#leases-in-messagepack).
-- A lease is a table (contract.md#n1-lease): `state` (admitted, started, streaming); `run` of its latest start, how often its job was
-- `taken` then, and the `answer` to that; startBy, deadline; its `reservedTokens`; the `bucket` (its first charge, 0 for no minute and no
-- day) and the `month` that it was charged to; `overage` (0 or 1); admittedAt; the `key` that it was charged to, if that has limits (only
-- its month, if `isKeyMonthOnly`); the bytes that it reserves to `keep` its answer, if it has an idempotency key; and `report`, its usage
-- record if it expires, as JSON. Its numbers are integers.
local packLease, unpackLease = cmsgpack.pack, cmsgpack.unpack
