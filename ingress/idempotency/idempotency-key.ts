import type { IncomingMessage } from 'node:http';
import { validationError } from '../../shared/errors.ts';

const headerName = 'idempotency-key';
const keyPattern = /^[!-~]{1,255}$/;

/** Returns the `Idempotency-Key` of a request, if it has one. Fails with `VALIDATION_ERROR` for a key of another form. */
export function idempotencyKeyOf({ headers }: Pick<IncomingMessage, 'headers'>): string | undefined {
  const sent = headers[headerName];
  if (sent === undefined) return undefined;
  const key = String(sent);
  if (!keyPattern.test(key)) throw invalidIdempotencyKey('must be 1 to 255 visible ASCII characters');
  return key;
}

export function invalidIdempotencyKey(message: string): Error {
  return validationError([{ path: headerName, message }]);
}
