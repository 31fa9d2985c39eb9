-- A part of the scripts that compare ids of stream entries (load-lua.ts).
local function partsOf(id)
  local milliseconds, sequence = string.match(id, '^(%d+)-(%d+)$')
  return tonumber(milliseconds), tonumber(sequence)
end

-- Compared as numbers: as text, sequence 10 would come before 9.
local function isAfter(id, other)
  local milliseconds, sequence = partsOf(id)
  local otherMilliseconds, otherSequence = partsOf(other)
  if milliseconds ~= otherMilliseconds then return milliseconds > otherMilliseconds end
  return sequence > otherSequence
end
