import { LRUCache } from 'lru-cache';
import { type Clock, systemClock } from '../../shared/bytes/clock.ts';
import { ApiError } from '../../shared/errors.ts';

/** Bodies from here on are large: parsing and queueing a smaller one blocks the process for a few milliseconds. */
export const largeBytesMin = 1_048_576;
/** Those from here on wait for each other: each block of work with them is longer than others should wait. */
export const pacedBytesMin = 4_194_305;

/**
 * Large bodies, from before they are read until they are queued. Both fail with the reason of the signal. A body is not read before its
 * time, so that it takes no memory; if its length was not announced, it waits with what it has.
 */
export interface LargeBodies {
  /**
   * Resolves when the next body of this sender with at least `pacedBytesMin` has its time, with what must be called with the bytes that arrived after all. Fails
   * with `SERVICE_UNAVAILABLE` after 30 s.
   */
  time(sender: string, bytes: number, signal: AbortSignal): Promise<(arrived: number) => void>;
  /** Resolves when a body that has arrived may be parsed, with what must be called once it is queued or refused. */
  place(bytes: number, signal: AbortSignal): Promise<() => void>;
}

/** A body of 16 MiB blocks an ingress and a worker in three pieces of 0.1 s. So those of a sender delay fewer than 1 % of other requests. */
const usualBytesPerSecond = 1_048_576;
const waitMsMax = 30_000;
/** A sender that is evicted waits no longer. */
const sendersMax = 10_000;

/**
 * The next such body of a sender waits in proportion to the bytes of the last, whether that was accepted or not. Large bodies of all senders are
 * parsed and queued one after another, `bytesAtOnceMax` at once but at least one, because memory then holds several copies of each
 * (contract.md#v2-large-and-refused-bodies).
 */
export function createLargeBodies({
  bytesAtOnceMax,
  bytesPerSecond = usualBytesPerSecond,
  clock = systemClock,
}: {
  bytesAtOnceMax: number;
  bytesPerSecond?: number;
  clock?: Clock;
}): LargeBodies {
  const freeAt = new LRUCache<string, number>({ max: sendersMax });
  const waiting = new Set<{ bytes: number; begin: () => void }>();
  let bytesAtOnce = 0;

  function beginWhatFits(): void {
    for (const body of waiting) {
      if (bytesAtOnce > 0 && bytesAtOnce + body.bytes > bytesAtOnceMax) return;
      waiting.delete(body);
      bytesAtOnce += body.bytes;
      body.begin();
    }
  }

  return {
    async time(sender, bytes, signal) {
      signal.throwIfAborted();
      const now = clock.now();
      const at = Math.max(now, freeAt.get(sender) ?? 0);
      const isTooFar = at - now > waitMsMax;
      const add = (more: number) => freeAt.set(sender, (freeAt.get(sender) ?? 0) + (more / bytesPerSecond) * 1_000);
      if (!isTooFar) {
        freeAt.set(sender, at);
        add(bytes);
      }
      try {
        // A refusal at once would cost more than a wait: its client would send the body, and the next one.
        const waitMs = Math.min(at - now, waitMsMax);
        if (waitMs > 0) await unlessAborted(signal, (resolve) => clock.after(waitMs, resolve));
      } catch (error) {
        if (!isTooFar) add(-bytes);
        throw error;
      }
      if (isTooFar) throw tooFast(at - now - waitMsMax);
      return (arrived) => void add(arrived - bytes);
    },
    async place(bytes, signal) {
      signal.throwIfAborted();
      await unlessAborted(signal, (resolve) => {
        const body = { bytes, begin: resolve };
        waiting.add(body);
        beginWhatFits();
        return () => void waiting.delete(body);
      });
      let hasLeft = false;
      return () => {
        if (hasLeft) return;
        hasLeft = true;
        bytesAtOnce -= bytes;
        beginWhatFits();
      };
    },
  };
}

/** `wait` returns what ends the wait early. */
async function unlessAborted(signal: AbortSignal, wait: (resolve: () => void) => () => void): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const end = wait(resolve);
  const abort = () => {
    end();
    reject(signal.reason);
  };
  signal.addEventListener('abort', abort);
  try {
    await promise;
  } finally {
    signal.removeEventListener('abort', abort);
  }
}

function tooFast(waitMs: number): ApiError {
  const message = 'Large bodies of this account arrive faster than the service reads them. Retry later.';
  return new ApiError('SERVICE_UNAVAILABLE', message, { retryAfterMs: Math.max(1_000, Math.round(waitMs)) });
}
