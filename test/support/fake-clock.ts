import { setImmediate as settled } from 'node:timers/promises';
import type { Clock } from '../../ingress/callers/issuer/clock.ts';

export interface FakeClock extends Clock {
  /** Moves on, running what is due on the way at its time, and lets everything that follows from it come to rest. */
  advance(ms: number): Promise<void>;
  /** How many timers wait. */
  pending(): number;
}

/** A clock that stands still unless it is moved. */
export function fakeClock(): FakeClock {
  let now = 0;
  let timers: { at: number; run: () => void }[] = [];

  return {
    now: () => now,
    after(ms, run) {
      const timer = { at: now + Math.max(0, ms), run };
      timers.push(timer);
      return () => {
        timers = timers.filter((other) => other !== timer);
      };
    },
    async advance(ms) {
      const until = now + ms;
      await settled();
      for (;;) {
        const [first] = timers.filter(({ at }) => at <= until).sort((a, b) => a.at - b.at);
        if (first === undefined) break;
        timers = timers.filter((other) => other !== first);
        now = first.at;
        first.run();
        await settled();
      }
      now = until;
    },
    pending: () => timers.length,
  };
}
