import { ApiError } from '../../errors.ts';

/** Returns the error for a store that is unreachable, busy, broken or closed. `cause` contains which, and only the log shows it. */
export function storeUnavailable(cause: unknown): ApiError {
  return new ApiError('SERVICE_UNAVAILABLE', 'The store cannot be used right now. Retry shortly.', { cause });
}

/**
 * Returns the error for a unique value that another document has: a hash of a key. Keys have 190 random bits, so this is a server error
 * and never the client's. A retry creates another key and can succeed, which `INTERNAL_ERROR` signals.
 */
export function valueTaken(cause: unknown): ApiError {
  return new ApiError('INTERNAL_ERROR', 'Something went wrong on our side.', { cause });
}

/** A store that this version of the program must not use. Final: a retry finds the same. The message is for the operator. */
export class RefusedStore extends Error {
  override readonly name = 'RefusedStore';
}

/** The error for a store with another schema than this version of the program uses. */
export function refusedSchema({ found, expected }: { found: number; expected: number }): RefusedStore {
  return new RefusedStore(
    `the store has schema ${found}, and this version uses schema ${expected}. Run the version that created the store, or set DATABASE_URL to another one`,
  );
}
