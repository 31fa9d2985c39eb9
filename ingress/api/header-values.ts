import type { IncomingMessage } from 'node:http';

/**
 * Returns the values of all headers with this name (lower case), in order. Node's `headersDistinct` returns the same, but converts all
 * headers of the request.
 */
export function headerValues({ rawHeaders }: Pick<IncomingMessage, 'rawHeaders'>, name: string): string[] {
  const values: string[] = [];
  for (let index = 1; index < rawHeaders.length; index += 2) {
    const [given = '', value = ''] = [rawHeaders[index - 1], rawHeaders[index]];
    if (given.length === name.length && given.toLowerCase() === name) values.push(value);
  }
  return values;
}
