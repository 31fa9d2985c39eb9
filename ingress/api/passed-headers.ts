import type { IncomingMessage } from 'node:http';
import { validationError } from '../../shared/errors.ts';
import { headerValues } from './header-values.ts';

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
