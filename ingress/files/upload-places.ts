import { ApiError, rateLimitExceeded } from '../../shared/errors.ts';

/** Room for one upload, to be left once. */
export type UploadPlace = { leave(): void };

export interface UploadPlaces {
  /** `SERVICE_UNAVAILABLE` where this ingress has as many as it may, `rate_limit_exceeded` where the account has. */
  enter(account: string): UploadPlace;
}

const retryAfterMs = 1_000;

/** How many files come in at once: each holds a connection, a writer of the store and up to one line in memory. */
export function createUploadPlaces(bounds: { uploadsMax: number; ofAccountMax: number }): UploadPlaces {
  const taken = new Map<string, number>();
  let uploads = 0;

  function leave(account: string): void {
    uploads--;
    const left = (taken.get(account) ?? 0) - 1;
    if (left > 0) taken.set(account, left);
    else taken.delete(account);
  }

  return {
    enter(account) {
      const own = taken.get(account) ?? 0;
      if (own >= bounds.ofAccountMax) {
        const message = `At most ${bounds.ofAccountMax} files can be uploaded at once.`;
        throw rateLimitExceeded('concurrency_limit', message, retryAfterMs);
      }
      if (uploads >= bounds.uploadsMax) {
        throw new ApiError('SERVICE_UNAVAILABLE', 'Too many files are being uploaded. Retry.', { retryAfterMs });
      }
      uploads++;
      taken.set(account, own + 1);
      return { leave: () => leave(account) };
    },
  };
}
