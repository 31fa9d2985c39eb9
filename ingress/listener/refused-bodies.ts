import { setTimeout as sleep } from 'node:timers/promises';
import { LRUCache } from 'lru-cache';

/** Parsing and validating 4 MiB blocks the event loop for up to 0.1 s. So refused bodies of a sender get about a tenth of its time. */
const usualBytesPerSecond = 4_194_304;
/** A sender that is evicted waits no longer. */
const sendersMax = 10_000;

/**
 * A refused body costs its sender nothing, but blocks this process for up to 25 ns a byte. So after a refused body the next one of the same
 * sender waits in proportion to the bytes of the refused one (contract.md#v2-large-and-refused-bodies). Accepted bodies add no wait here:
 * the limits of their plan count them, and large ones wait for each other.
 */
export function createRefusedBodies(
  deps: {
    bytesPerSecond?: number;
    /** The longest wait that one body adds. */
    pauseMsMax?: number;
    now?: () => number;
    wait?: (ms: number) => Promise<unknown>;
  } = {},
) {
  const {
    bytesPerSecond = usualBytesPerSecond,
    pauseMsMax = 5_000,
    now = () => performance.now(),
    wait = sleep,
  } = deps;
  const freeAt = new LRUCache<string, number>({ max: sendersMax });

  return {
    /** Whether `turn` may have to wait. */
    mustWait: (sender: string): boolean => freeAt.has(sender),
    /** Resolves when the next body of this sender may be parsed: at once, unless others were refused shortly before. */
    async turn(sender: string): Promise<void> {
      // Of several that wait, the first may be refused as well: then the others wait again.
      for (let at = freeAt.get(sender); at !== undefined && at > now(); at = freeAt.get(sender)) await wait(at - now());
      freeAt.delete(sender);
    },
    /** Counts a body that was refused. */
    add(sender: string, bytes: number): void {
      const pauseMs = Math.min(pauseMsMax, (bytes / bytesPerSecond) * 1_000);
      freeAt.set(sender, Math.max(now(), freeAt.get(sender) ?? 0) + pauseMs);
    },
  };
}

/** Delays the bodies of senders whose earlier bodies were refused after they had been read: accounts, or networks of devices. */
export type RefusedBodies = ReturnType<typeof createRefusedBodies>;
