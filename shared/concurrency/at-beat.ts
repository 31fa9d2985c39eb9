const beatMs = 250;
/** Counted from the start of this process. */
type Beat = { number: number; timer: NodeJS.Timeout; runs: Set<() => void> };
/** Those at which something runs. */
let beats: readonly Beat[] = [];

/**
 * Runs regular work in about `ms`, together with other such work of this process: each time that an idle process wakes up costs as much as
 * a part of that work (decisions.md#few-timers-in-an-idle-process). Half a second and longer is rounded to beats of 250 ms. Shorter times
 * are kept. Returns a function that cancels it.
 */
export function atBeat(ms: number, run: () => void): () => void {
  // What is left of half a second counts as half a second.
  if (ms < 2 * beatMs - beatMs / 10) {
    const timer = setTimeout(run, ms);
    return () => clearTimeout(timer);
  }
  const beat = beatIn(ms);
  const one = () => run();
  beat.runs.add(one);
  return () => {
    if (!beat.runs.delete(one) || beat.runs.size > 0) return;
    clearTimeout(beat.timer);
    remove(beat);
  };
}

function beatIn(ms: number): Beat {
  const now = performance.now();
  const number = Math.round((now + ms) / beatMs);
  const known = beats.find((beat) => beat.number === number);
  if (known !== undefined) return known;
  const beat: Beat = { number, runs: new Set(), timer: setTimeout(() => runAt(beat), number * beatMs - now) };
  beats = [...beats, beat];
  return beat;
}

function runAt(beat: Beat): void {
  remove(beat);
  for (const run of beat.runs) run();
}

function remove(beat: Beat): void {
  beats = beats.filter((each) => each !== beat);
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
