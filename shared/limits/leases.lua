-- A part of the scripts that look after leases (read-lua.ts).
-- A lease is JSON: `state` (admitted, started, streaming); `run` of its latest start, how often its job was `taken` then, and
-- the `answer` to that; startBy, deadline; `tokens` that it holds; `bucket` (when that was begun), `day` and `month` that it was
-- charged to; `overage`; admittedAt; and `report`, what its usage record says should nobody end it.
-- Its members stand in this order, without spaces, as long as no script has decoded and encoded it (those of the release before
-- do). So most scripts read it by a pattern and change only its beginning: cjson takes 10 µs for both.
local lostLifeMs = 3600000
