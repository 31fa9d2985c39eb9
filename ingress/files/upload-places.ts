import { ApiError, rateLimitExceeded } from '../../shared/errors.ts';

/** Room for one upload, to be left once. */
export interface UploadPlace {
  /** Aborted, with the `ApiError` to answer, when the place is given to another upload. */
  signal: AbortSignal;
  /** Counts bytes that have come. */
  received(bytes: number): void;
  leave(): void;
}

export interface UploadPlaces {
  /** `SERVICE_UNAVAILABLE` if this ingress has as many as it may, `rate_limit_exceeded` if the account has. */
  enter(account: string): UploadPlace;
}

const retryAfterMs = 1_000;
/** An upload is judged by its rate after this long. */
const judgedAfterMs = 5_000;
/** A file of the largest size would take half an hour at this rate, twice as long as it may. */
const slowBytesPerSecond = 65_536;

type Upload = { account: string; since: number; bytes: number; makeRoom: AbortController };

/**
 * How many files come in at once: each holds a connection, a writer of the store and up to one line in memory. If all places are
 * taken, the slowest upload makes room with 408, unless all are fast or new: clients that trickle must not keep others out. One that is
 * new makes room as well if its account has more uploads than the one that comes would have: little of it is lost, and clients that
 * begin again and again must not keep others out either.
 */
export function createUploadPlaces({
  uploadsMax,
  ofAccountMax,
  now = () => performance.now(),
}: {
  uploadsMax: number;
  ofAccountMax: number;
  now?: () => number;
}): UploadPlaces {
  const taken = new Map<string, number>();
  const uploads = new Set<Upload>();

  function leave(account: string, upload: Upload): void {
    uploads.delete(upload);
    const left = (taken.get(account) ?? 0) - 1;
    if (left > 0) taken.set(account, left);
    else taken.delete(account);
  }

  /** Its place is free at once, although it takes a moment to end. */
  function makeRoom(uploadsOfComing: number): boolean {
    const hasMore = ({ account }: Upload) => (taken.get(account) ?? 0) > uploadsOfComing;
    const slow = [...uploads]
      .filter((upload) => now() - upload.since >= judgedAfterMs || hasMore(upload))
      .map((upload) => ({ upload, rate: (upload.bytes * 1_000) / Math.max(1, now() - upload.since) }))
      .filter(({ rate }) => rate < slowBytesPerSecond);
    const [slowest] = slow.toSorted((one, other) => one.rate - other.rate);
    if (slowest === undefined) return false;
    uploads.delete(slowest.upload);
    slowest.upload.makeRoom.abort(tooSlow());
    return true;
  }

  return {
    enter(account) {
      const own = taken.get(account) ?? 0;
      if (own >= ofAccountMax) {
        const message = `At most ${ofAccountMax} files can be uploaded at once.`;
        throw rateLimitExceeded('concurrency_limit', message, retryAfterMs);
      }
      if (uploads.size >= uploadsMax && !makeRoom(own + 1)) {
        throw new ApiError('SERVICE_UNAVAILABLE', 'Too many files are being uploaded. Retry.', { retryAfterMs });
      }
      const upload: Upload = { account, since: now(), bytes: 0, makeRoom: new AbortController() };
      uploads.add(upload);
      taken.set(account, own + 1);
      return {
        signal: upload.makeRoom.signal,
        received(bytes) {
          upload.bytes += bytes;
        },
        leave: () => leave(account, upload),
      };
    },
  };
}

function tooSlow(): ApiError {
  return new ApiError('REQUEST_TIMEOUT', 'All places for uploads are taken, and this upload was the slowest. Retry.');
}
