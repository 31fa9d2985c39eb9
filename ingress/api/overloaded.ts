import { ApiError } from '../../shared/errors.ts';

const soonestMs = 1_000;
const latestMs = 5_000;

/**
 * `SERVICE_UNAVAILABLE` for a request that finds no room. Official SDKs come back after exactly as long as they are told, so those
 * refused in one moment are spread over some seconds, or they would meet again. Not over more: how fast a queue empties is unknown,
 * and being refused once more costs next to nothing. `random` gives numbers from 0 to 1.
 */
export function overloaded(reason: string, random: () => number = Math.random): ApiError {
  const retryAfterMs = Math.round(soonestMs + random() * (latestMs - soonestMs));
  return new ApiError('SERVICE_UNAVAILABLE', `The service is overloaded: ${reason}. Retry later.`, {
    retryAfterMs,
    headers: { 'retry-after-ms': String(retryAfterMs) },
  });
}
