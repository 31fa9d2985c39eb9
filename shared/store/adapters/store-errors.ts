import { ApiError } from '../../errors.ts';

/** Returns the error for a store that is unreachable, busy, broken or closed. `cause` contains which, and only the log shows it. */
export function storeUnavailable(cause: unknown): ApiError {
  return new ApiError('SERVICE_UNAVAILABLE', 'The store cannot be used right now. Retry shortly.', { cause });
}

/**
 * Returns the error for a hash that is also the hash of another account's active key. Keys have 190 random bits, so this is a server error
 * and never the client's. A retry creates another key and can succeed, which `INTERNAL_ERROR` signals.
 */
export function keyHashTaken(cause: unknown): ApiError {
  return new ApiError('INTERNAL_ERROR', 'Something went wrong on our side.', { cause });
}
