-- A part of admit.lua: the month (YYYY-MM) of a time, or an earlier month.
-- It converts days to years by counting from 1 March 0000, so that the leap day is the last day of a year (H. Hinnant,
-- "chrono-compatible low-level date algorithms").
local function monthName(ms, monthsBefore)
  local days = floor(ms / dayMs) + 719468
  local era = floor(days / 146097)
  local dayOfEra = days - era * 146097
  local yearOfEra = floor((dayOfEra - floor(dayOfEra / 1460) + floor(dayOfEra / 36524) - floor(dayOfEra / 146096)) / 365)
  local dayOfYear = dayOfEra - (365 * yearOfEra + floor(yearOfEra / 4) - floor(yearOfEra / 100))
  local month = (era * 400 + yearOfEra) * 12 + floor((5 * dayOfYear + 2) / 153) + 2 - monthsBefore
  return string.format('%04d-%02d', floor(month / 12), month % 12 + 1)
end
