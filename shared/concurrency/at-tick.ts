/** Less than a reader notices. A tick costs the same for one token as for many: a frame, its way through Redis, and wake-ups. */
const tickMs = 10;

let waiting: (() => void)[] = [];
let tickedAt = Number.NEGATIVE_INFINITY;

/**
 * Runs tasks of all streams together: at the end of this turn of the event loop if the last ones ran 10 ms ago or earlier, else when those
 * 10 ms are over (decisions.md#text-is-read-in-ticks). A task must not throw.
 */
export function atTick(task: () => void): void {
  waiting.push(task);
  if (waiting.length > 1) return;
  const waitMs = tickedAt + tickMs - performance.now();
  if (waitMs > 0) setTimeout(tick, waitMs);
  else setImmediate(tick);
}

function tick(): void {
  tickedAt = performance.now();
  const tasks = waiting;
  waiting = [];
  for (const task of tasks) task();
}
