const beatMs = 250;
/** What runs at a beat, counted from the start of this process. */
const due = new Map<number, { timer: NodeJS.Timeout; runs: Set<() => void> }>();

/**
 * Runs regular work in about `ms`, together with other such work of this process: each time that an idle process wakes up costs as much as
 * a part of that work (decisions.md#few-timers-in-an-idle-process). Half a second and longer is rounded to beats of 250 ms. Shorter times
 * are kept. Returns a function that cancels it.
 */
export function atBeat(ms: number, run: () => void): () => void {
  if (ms < 2 * beatMs - beatMs / 10) {
    const timer = setTimeout(run, ms);
    return () => clearTimeout(timer);
  }
  const now = performance.now();
  const beat = Math.round((now + ms) / beatMs);
  const found = due.get(beat) ?? { timer: setTimeout(runAt, beat * beatMs - now, beat), runs: new Set() };
  due.set(beat, found);
  const one = () => run();
  found.runs.add(one);
  return () => cancelAt(beat, one);
}

function runAt(beat: number): void {
  const { runs = [] } = due.get(beat) ?? {};
  due.delete(beat);
  for (const run of runs) run();
}

function cancelAt(beat: number, run: () => void): void {
  const found = due.get(beat);
  if (!found?.runs.delete(run) || found.runs.size > 0) return;
  clearTimeout(found.timer);
  due.delete(beat);
}

/** Pauses for about `ms`, to a beat. Ends early, without an error, when the signal is aborted. */
export async function pauseToBeat(ms: number, signal: AbortSignal): Promise<void> {
  if (signal.aborted) return;
  const { promise, resolve } = Promise.withResolvers<void>();
  const onAbort = () => resolve();
  signal.addEventListener('abort', onAbort, { once: true });
  const cancel = atBeat(ms, resolve);
  await promise;
  cancel();
  signal.removeEventListener('abort', onAbort);
}
