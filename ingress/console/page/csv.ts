/** A file of CSV (RFC 4180): its first line has the names of the columns. */
export function csvOf(header: readonly string[], rows: readonly (readonly (string | number | null)[])[]): string {
  return [header, ...rows].map((cells) => `${cells.map(cellOf).join()}\r\n`).join('');
}

/** A text that begins like a formula of a spreadsheet gets a quotation mark in front of it, which makes it a text. */
function cellOf(value: string | number | null): string {
  if (typeof value === 'number') return String(value);
  const text = value ?? '';
  const safe = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\r\n]|^\s|\s$/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}
