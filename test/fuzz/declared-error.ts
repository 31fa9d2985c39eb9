import { ApiError, type ErrorCode } from '../../shared/errors.ts';
import { require } from './search/fuzz-target.ts';

const messageLengthMax = 4_096;

/** Returns the code of a failure that clients may get here. Throws any other error again, because it is an internal error. */
export function declaredError(error: unknown, codes: readonly ErrorCode[]): string {
  if (!(error instanceof ApiError) || !codes.includes(error.code)) throw error;
  require(error.message !== '' &&
    error.message.length <= messageLengthMax, `its message has ${error.message.length} characters`);
  require(error.issues.every(({ path }) => path !== ''), 'a fault has no path');
  return error.code;
}
