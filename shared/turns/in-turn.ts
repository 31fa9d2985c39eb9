import { createBusyLoop } from './busy-loop.ts';

/**
 * Work in pieces: one piece in each turn of the event loop, and one in 10 ms while the loop is busy, unless `pause` says otherwise. So others
 * wait for one piece at a time, however much work there is (contract.md#v3-rests).
 */
export interface Turns {
  run(piece: () => void): void;
  /** To be awaited between two pieces. */
  next(): Promise<void>;
}

const busyPaceMs = 10;

export function createTurns({
  isBusy = createBusyLoop(),
  pause = (then: () => void): void => void setTimeout(then, busyPaceMs),
} = {}): Turns {
  const waiting: (() => void)[] = [];

  function run(piece: () => void): void {
    if (waiting.push(piece) === 1) schedule();
  }

  function schedule(): void {
    if (isBusy()) pause(runFirst);
    else setImmediate(runFirst);
  }

  function runFirst(): void {
    const piece = waiting.shift();
    if (waiting.length > 0) schedule();
    piece?.();
  }

  return { run, next: () => new Promise(run) };
}

/** Those of all work on large bodies in this process. */
export const { run: inTurn, next: nextTurn } = createTurns();
