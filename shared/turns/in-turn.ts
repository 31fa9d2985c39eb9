import { createBusyLoop } from './busy-loop.ts';

/**
 * Work in pieces: one piece in each turn of the event loop, and one in 10 ms while the loop is busy, unless `pause` says otherwise. So others
 * wait for one piece at a time, however much work there is (contract.md#v3-rests).
 */
export interface Turns {
  /** Returns a function that withdraws the piece, if it has not run. */
  run(piece: () => void): () => void;
  /** To be awaited between two pieces. */
  next(): Promise<void>;
}

const busyPaceMs = 10;

export function createTurns({
  isBusy = createBusyLoop(),
  pause = (then: () => void): void => void setTimeout(then, busyPaceMs),
} = {}): Turns {
  const waiting = new Set<{ piece: () => void }>();
  let isScheduled = false;

  function run(piece: () => void): () => void {
    const entry = { piece };
    waiting.add(entry);
    if (!isScheduled) schedule();
    return () => void waiting.delete(entry);
  }

  function schedule(): void {
    isScheduled = true;
    if (isBusy()) pause(runFirst);
    else setImmediate(runFirst);
  }

  function runFirst(): void {
    isScheduled = false;
    const [first] = waiting;
    if (first === undefined) return;
    waiting.delete(first);
    if (waiting.size > 0) schedule();
    first.piece();
  }

  return { run, next: () => new Promise((resolve) => void run(resolve)) };
}

/** Those of all work on large bodies in this process. */
export const { run: inTurn, next: nextTurn } = createTurns();
