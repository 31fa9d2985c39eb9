import { createBusyLoop } from './busy-loop.ts';

/**
 * Work in pieces: one piece in each turn of the event loop, and one in 25 ms while the loop is busy. So others wait for one piece at a
 * time, however much work there is (contract.md#v3-rests).
 */
export interface Turns {
  /** Returns a function that withdraws the piece, if it has not run. */
  run(piece: () => void): () => void;
  /** To be awaited between two pieces. */
  next(): Promise<void>;
}

/** Processes share processors, so work that can wait does so long before its own loop is full. */
export const turnsBusyFrom = 0.3;
const busyPaceMs = 25;

export function createTurns({
  isBusy = createBusyLoop(turnsBusyFrom),
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

/** Those of all work on large payloads, answers and files in this process. */
export const { run: inTurn, next: nextTurn } = createTurns();
