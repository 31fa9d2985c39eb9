import { ApiError } from '../../shared/errors.ts';

const soonestMs = 1_000;
const latestMs = 5_000;

/**
 * `SERVICE_UNAVAILABLE` for a request that exceeds the capacity. Official SDKs retry after exactly the given time. So it varies by some
 * seconds: requests that are refused together must not retry together. It varies by no more, because it is unknown how fast a queue drains,
 * and another refusal costs almost nothing. `random` returns numbers from 0 to 1.
 */
export function overloadError(reason: string, random: () => number = Math.random): ApiError {
  const retryAfterMs = Math.round(soonestMs + random() * (latestMs - soonestMs));
  return new ApiError('SERVICE_UNAVAILABLE', `The service is overloaded: ${reason}. Retry later.`, {
    retryAfterMs,
    headers: { 'retry-after-ms': String(retryAfterMs) },
  });
}
