import { setImmediate as settled } from 'node:timers/promises';
import type { Clock } from '../../shared/process/answer-budget.ts';

export interface FakeClock extends Clock {
  /** Advances the time, runs each due timer at its time, and waits until all that follows from it has settled. */
  advance(ms: number): Promise<void>;
  /** The number of pending timers. */
  pending(): number;
}

/** A clock that only moves when advanced. */
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
