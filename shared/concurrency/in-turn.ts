import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';

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

const lookEveryMs = 100;

/** Whether the event loop of this process was busy between the last two looks. */
type BusyLoop = () => boolean;

/**
 * Looks at most ten times a second. `busyFrom`: the share of the time, 0 to 1, from which a loop that works is busy. `utilization` returns
 * the share since its last call.
 */
export function createBusyLoop(busyFrom: number, { now, utilization } = loopOfProcess()): BusyLoop {
  let lookedAt = now();
  let wasBusy = false;
  return function isBusy() {
    if (now() - lookedAt < lookEveryMs) return wasBusy;
    lookedAt = now();
    wasBusy = utilization() >= busyFrom;
    return wasBusy;
  };
}

function loopOfProcess() {
  let last = performance.eventLoopUtilization();
  return {
    now: () => performance.now(),
    utilization(): number {
      const current = performance.eventLoopUtilization();
      const { utilization } = performance.eventLoopUtilization(current, last);
      last = current;
      return utilization;
    },
  };
}

/** To be awaited after work that blocked the process for `workMs`. */
export type Rest = (workMs: number) => Promise<unknown>;

/** One piece that takes longer than this delays more requests than several short pieces of the same total time. */
const longMs = 30;

/**
 * Limits work of one kind to about a quarter of this process's time, so that other requests are served in between (contract.md#v3-rests,
 * decisions.md#heavy-work-rests). After each piece, a task rests for three times as long as the piece took (longer after a long piece),
 * times the number of tasks that rest now. So tasks share that quarter, and a task with cheap pieces rests less than one with costly
 * pieces.
 */
export function createRests({
  restsPerWork = 3,
  restMsMax = 10_000,
  wait = sleep,
}: {
  restsPerWork?: number;
  restMsMax?: number;
  wait?: (ms: number) => Promise<unknown>;
} = {}): Rest {
  let resting = 0;
  return async function rest(workMs) {
    resting += 1;
    try {
      const times = restsPerWork * Math.max(1, workMs / longMs) * resting;
      await wait(Math.min(restMsMax, workMs * times));
    } finally {
      resting -= 1;
    }
  };
}
