import type { IncomingMessage, ServerResponse } from 'node:http';
import { validationError } from '../../shared/errors.ts';

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

/** Sets several headers. Koa's `ctx.set` creates four arrays for that, which costs more than the headers. */
export function setHeaders(response: ServerResponse, headers: Readonly<Record<string, string>>): void {
  for (const name in headers) response.setHeader(name, headers[name] as string); // all values are strings
}

const valuePattern = /^[\x20-\x7e]{1,1024}$/;

/**
 * Returns the headers of a request that its backend gets, by their names in lower case; undefined if there are none. Fails with
 * `VALIDATION_ERROR` for a value that is not plain ASCII, or too long.
 */
export function passedHeaders(request: IncomingMessage, names: readonly string[]): Record<string, string> | undefined {
  const passed: Record<string, string> = {};
  for (const name of names) {
    const values = headerValues(request, name).filter((value) => value !== '');
    if (values.length === 0) continue;
    const value = values.join(', ');
    if (!valuePattern.test(value)) {
      throw validationError([{ path: name, message: 'expected at most 1,024 ASCII characters' }]);
    }
    passed[name] = value;
  }
  return Object.keys(passed).length === 0 ? undefined : passed;
}

/** Returns an address without a slash at its end, so that a path can follow. */
export function withoutSlash(url: string): string {
  return url.replace(/\/$/, '');
}
