import { LRUCache } from 'lru-cache';
import { type Clock, systemClock } from '../../shared/bytes/clock.ts';

/** Bodies from here on are large: parsing and queueing a smaller one blocks the process for a few milliseconds. */
export const largeBytesMin = 1_048_576;

/** What is known of a client: its connection. */
type Client = {
  readonly destroyed: boolean;
  once(event: 'close', listener: () => void): unknown;
  off(event: 'close', listener: () => void): unknown;
};

/** A large body on its way from its parsing into the queue, during which memory holds several copies of it. */
export interface LargeBodies {
  /**
   * Resolves when a body of this sender may be parsed, or its client has disconnected, with what must be called once it is queued or
   * refused.
   */
  enter(sender: string, bytes: number, client: Client): Promise<() => void>;
}

type Waiting = { sender: string; bytes: number; client: Client; begin: (leave: () => void) => void };

/** A body of 16 MiB blocks the event loop for 0.15 s altogether. So the bodies of a sender take less than a twentieth of its time. */
const usualBytesPerSecond = 4_194_304;
/** A sender that is evicted waits no longer. */
const sendersMax = 10_000;

/**
 * Lets large bodies be parsed one after another, `bytesAtOnceMax` at once but at least one. The next one of the same sender waits in
 * proportion to the bytes of the last, whether that was accepted or not (contract.md#v2-large-and-refused-bodies). Of several senders the
 * one that came first begins.
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
  const waiting = new Set<Waiting>();
  const freeAt = new LRUCache<string, number>({ max: sendersMax });
  let bytesAtOnce = 0;
  let cancelTimer = () => {};

  function beginWhatFits(): void {
    cancelTimer();
    const now = clock.now();
    const seen = new Set<string>();
    let nextAt = Number.POSITIVE_INFINITY;
    for (const body of waiting) {
      const { sender, bytes, client } = body;
      const mayBeginAt = seen.has(sender) ? Number.POSITIVE_INFINITY : (freeAt.get(sender) ?? 0);
      seen.add(sender);
      if (client.destroyed) begin(body, 0);
      else if (mayBeginAt > now) nextAt = Math.min(nextAt, mayBeginAt);
      else if (bytesAtOnce > 0 && bytesAtOnce + bytes > bytesAtOnceMax) break;
      else {
        freeAt.set(sender, now + (bytes / bytesPerSecond) * 1_000);
        begin(body, bytes);
      }
    }
    if (nextAt < Number.POSITIVE_INFINITY) cancelTimer = clock.after(nextAt - now, beginWhatFits);
  }

  function begin(body: Waiting, bytes: number): void {
    waiting.delete(body);
    bytesAtOnce += bytes;
    let hasLeft = false;
    body.begin(() => {
      if (hasLeft) return;
      hasLeft = true;
      bytesAtOnce -= bytes;
      beginWhatFits();
    });
  }

  return {
    async enter(sender, bytes, client) {
      client.once('close', beginWhatFits);
      const leave = await new Promise<() => void>((resolve) => {
        waiting.add({ sender, bytes, client, begin: resolve });
        beginWhatFits();
      });
      client.off('close', beginWhatFits);
      return leave;
    },
  };
}
