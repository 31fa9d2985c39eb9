import { setTimeout as sleep } from 'node:timers/promises';

const tickMs = 20;
const triesMax = 5;

/**
 * Runs work in which a time limit of this process plays a part, and which throws if it fails. If the process was held up for as long as
 * `gapMs` meanwhile, a failure says nothing about the service: the work is run again.
 */
export async function undisturbed(gapMs: number, work: () => Promise<void>): Promise<void> {
  for (let tries = 1; ; tries += 1) {
    const watch = watchGaps();
    const failure = await work().then(
      () => undefined,
      (error: unknown) => ({ error }),
    );
    const gap = await watch.end();
    if (failure === undefined) return;
    if (gap < gapMs || tries === triesMax) throw failure.error;
  }
}

/** Measures the longest time for which the event loop stood still. */
function watchGaps(): { end(): Promise<number> } {
  let longest = 0;
  let before = performance.now();
  const tick = () => {
    const now = performance.now();
    longest = Math.max(longest, now - before);
    before = now;
  };
  const ticking = setInterval(tick, tickMs);
  return {
    async end() {
      await sleep(tickMs);
      tick();
      clearInterval(ticking);
      return longest;
    },
  };
}
