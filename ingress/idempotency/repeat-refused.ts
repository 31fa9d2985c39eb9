import { ApiError } from '../../shared/errors.ts';
import type { Repeat } from '../../shared/limits/admission.ts';

/** Returns why a request with an idempotency key that was used before gets no answer (contract.md#h1-idempotency-keys). */
export function repeatRefused(how: Exclude<Repeat, 'kept'>): ApiError {
  switch (how) {
    case 'mismatch':
      return new ApiError('IDEMPOTENCY_MISMATCH', 'This idempotency key was used for another request. Use a new key.');
    case 'lost':
      return new ApiError(
        'IDEMPOTENCY_RESULT_LOST',
        'The first request with this idempotency key was charged, and its answer is not kept. Use a new key to ask again.',
      );
    case 'running':
      return new ApiError(
        'CONFLICT',
        'The first request with this idempotency key is still running. Retry to get its answer.',
        { retryAfterMs: 1_000, headers: { 'x-should-retry': 'true' } },
      );
  }
}
