import { ApiError } from '../../errors.ts';

/** The store cannot be reached, stays busy, is broken or is closed; `cause` says which, and only the log hears it. */
export function storeUnavailable(cause: unknown): ApiError {
  return new ApiError('SERVICE_UNAVAILABLE', 'The store cannot be used right now. Retry shortly.', { cause });
}

/**
 * Another account has an active key with this hash. Keys have 190 random bits, so this is a fault of ours and never the
 * client's; a repeat brings another key and can succeed, which is what `INTERNAL_ERROR` tells it.
 */
export function keyHashTaken(cause: unknown): ApiError {
  return new ApiError('INTERNAL_ERROR', 'Something went wrong on our side.', { cause });
}
