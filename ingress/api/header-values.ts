import type { IncomingMessage } from 'node:http';

/**
 * The values of all headers of this name (lower case), in their order. Node's `headersDistinct` gives the same, but converts all headers
 * of the request.
 */
export function headerValues({ rawHeaders }: Pick<IncomingMessage, 'rawHeaders'>, name: string): string[] {
  const values: string[] = [];
  for (let index = 1; index < rawHeaders.length; index += 2) {
    const [given = '', value = ''] = [rawHeaders[index - 1], rawHeaders[index]];
    if (given.length === name.length && given.toLowerCase() === name) values.push(value);
  }
  return values;
}
