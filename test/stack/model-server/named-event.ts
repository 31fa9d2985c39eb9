/** A server-sent event with a name. */
export function namedEvent(name: string, value: object): string {
  return `event: ${name}\ndata: ${JSON.stringify(value)}\n\n`;
}
