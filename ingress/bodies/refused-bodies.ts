import { setTimeout as sleep } from 'node:timers/promises';
import { LRUCache } from 'lru-cache';

/** Bodies of each account that were refused after they had been read. */
export interface RefusedBodies {
  /** Whether `turn` may have to wait. */
  mustWait(account: string): boolean;
  /** Resolves when the next body of this account may be parsed: at once, unless others of it were refused a moment ago. */
  turn(account: string): Promise<void>;
  /** Counts a body that was refused. */
  add(account: string, bytes: number): void;
}

/** To parse and to check 4 MiB takes up to 0.1 s of the event loop: an account gets about a tenth of it for nothing. */
const usualBytesPerSecond = 4_194_304;
/** An account that is forgotten waits no longer. */
const accountsMax = 10_000;

/**
 * A refused body costs its account nothing, and this process up to 25 ns a byte, in which it does nothing else. So after a refused
 * body the next one of the same account waits in proportion to its bytes. Bodies that are taken wait for nothing: the limits of
 * their plan count them.
 */
export function createRefusedBodies(
  deps: {
    bytesPerSecond?: number;
    /** A larger body costs no more than this. */
    pauseMsMax?: number;
    now?: () => number;
    wait?: (ms: number) => Promise<unknown>;
  } = {},
): RefusedBodies {
  const {
    bytesPerSecond = usualBytesPerSecond,
    pauseMsMax = 5_000,
    now = () => performance.now(),
    wait = sleep,
  } = deps;
  const freeAt = new LRUCache<string, number>({ max: accountsMax });

  return {
    mustWait: (account) => freeAt.has(account),
    async turn(account) {
      // Of those that wait together the first may be refused, too: then the others wait again.
      for (let at = freeAt.get(account); at !== undefined && at > now(); at = freeAt.get(account))
        await wait(at - now());
      freeAt.delete(account);
    },
    add(account, bytes) {
      const pauseMs = Math.min(pauseMsMax, (bytes / bytesPerSecond) * 1_000);
      freeAt.set(account, Math.max(now(), freeAt.get(account) ?? 0) + pauseMs);
    },
  };
}
