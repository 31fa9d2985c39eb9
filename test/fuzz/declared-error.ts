import { ApiError, type ErrorCode } from '../../shared/errors.ts';
import { require } from './search/fuzz-target.ts';

const messageLengthMax = 4_096;

/** The code of a failure that clients may get here; anything else that was thrown is a fault of ours, and is thrown on. */
export function declaredError(error: unknown, codes: readonly ErrorCode[]): string {
  if (!(error instanceof ApiError) || !codes.includes(error.code)) throw error;
  require(error.message !== '' &&
    error.message.length <= messageLengthMax, `its message has ${error.message.length} characters`);
  require(error.faults.every(({ path }) => path !== ''), 'a fault names no field');
  return error.code;
}
