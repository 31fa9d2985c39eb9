import { ApiError, rateLimitExceeded } from '../../shared/errors.ts';

/** A slot for one upload, to be released once. */
export interface UploadSlot {
  /** Aborted with the `ApiError` to answer when the slot is given to another upload. */
  signal: AbortSignal;
  /** Counts received bytes. */
  received(bytes: number): void;
  leave(): void;
}

const retryAfterMs = 1_000;
/** An upload counts as new for this long; after that its rate decides. */
const judgedAfterMs = 5_000;
/** At this rate, a file of the maximum size would take half an hour, twice the allowed time. */
const slowBytesPerSecond = 65_536;

type Upload = { account: string; since: number; bytes: number; makeRoom: AbortController };

/**
 * Limits concurrent uploads (contract.md#l6-uploads): each holds a connection, a writer of the store and up to one line in memory. If all
 * slots are taken, the slowest upload is ended with 408, unless all are fast or new: slow clients must not block others. A new upload can
 * also be ended if its account has more uploads than the account of the incoming one would have: little of it is lost, and clients that
 * restart repeatedly must not block others either.
 */
export function createUploadSlots({
  uploadsMax,
  ofAccountMax,
  now = () => performance.now(),
}: {
  uploadsMax: number;
  ofAccountMax: number;
  now?: () => number;
}) {
  const taken = new Map<string, number>();
  const uploads = new Set<Upload>();

  function leave(account: string, upload: Upload): void {
    uploads.delete(upload);
    const left = (taken.get(account) ?? 0) - 1;
    if (left > 0) taken.set(account, left);
    else taken.delete(account);
  }

  /** The slot is free immediately, although the upload takes a moment to end. */
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
    /** Fails with `SERVICE_UNAVAILABLE` at the limit of this ingress, and with `rate_limit_exceeded` at the limit of the account. */
    enter(account: string): UploadSlot {
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

export type UploadSlots = ReturnType<typeof createUploadSlots>;

function tooSlow(): ApiError {
  return new ApiError('REQUEST_TIMEOUT', 'All upload slots are in use, and this upload was the slowest. Retry.');
}
