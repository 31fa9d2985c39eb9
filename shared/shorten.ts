/** Cuts a text that is longer than `lengthMax`. An ellipsis shows that something is missing. */
export function shorten(text: string, lengthMax: number): string {
  return text.length > lengthMax ? `${text.slice(0, lengthMax)}…` : text;
}
