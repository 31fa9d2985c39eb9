import { Counter, type Registry } from 'prom-client';
import {
  createHeldBytes,
  createPausedSources,
  type HeldBytes,
  type HeldSource,
  pieceBytes,
  type Source,
} from './held-bytes.ts';
import { observeGauge } from './metrics.ts';

/** A monotonic clock in milliseconds. `after` runs once; the returned function cancels it. */
export type Clock = { now(): number; after(ms: number, run: () => void): () => void };

/** Its timers do not keep the process alive. */
export const systemClock: Clock = {
  now: () => performance.now(),
  after(ms, run) {
    const timer = setTimeout(run, ms).unref();
    return () => clearTimeout(timer);
  },
};

/** What this process holds of one answer, until it is disposed of or released. */
export interface HeldAnswer extends Disposable {
  /** The answer comes from this source, which is paused while there is no room. What was held of an earlier one is released. */
  readFrom(source: Source): void;
  /** Counts bytes that are held from now on, or that are no longer held if they are fewer than none. */
  add(bytes: number): void;
  /** All of it has arrived, so another one may continue. Its bytes still count. */
  arrived(): void;
  /**
   * It waits for its client from now on, until nothing is held. `end` is called at most once, if the client is slow and others need the
   * room: nothing is held any more then.
   */
  stall(end: () => void): void;
  /** Its client has taken this many bytes. */
  flow(bytes: number): void;
  /** Releases what is held so far. Another source may follow. */
  release(): void;
}

export interface AnswerBudget {
  hold(holder: string): HeldAnswer;
  bytesHeld(): number;
  /** Answers whose sources are paused. */
  paused(): number;
}

/** Creates the budget of answers of this process, with its metrics. */
export function openAnswerBudget({ bytesMax, registry }: { bytesMax: number; registry: Registry }): AnswerBudget {
  const ended = new Counter({
    name: 'svc_answers_ended_total',
    help: 'Answers ended because their client read them slowly while this process, or their account, held too many bytes of answers',
    registers: [registry],
  });
  const budget = createAnswerBudget({ bytesMax, onEnded: () => ended.inc() });
  observeGauge(registry, {
    name: 'svc_answer_bytes_held',
    help: 'Bytes of answers that this process holds, of ANSWER_BUDGET_BYTES',
    read: budget.bytesHeld,
  });
  observeGauge(registry, {
    name: 'svc_answer_bytes_max',
    help: 'The value of ANSWER_BUDGET_BYTES',
    read: () => bytesMax,
  });
  observeGauge(registry, {
    name: 'svc_answers_paused',
    help: 'Answers that this process does not read, because it holds too many bytes of answers',
    read: budget.paused,
  });
  return budget;
}

/** `slowAt`: the time after which its client is slow, unless it takes more before. */
type ReadProgress = { slowAt: number; end: (() => void) | undefined };

/** A client is slow once it is ten seconds behind this rate. A worker gets a report of each 512 KiB that is taken. */
const slowBytesPerSecond = 65_536;
const behindMsMax = 10_000;
const lookEveryMs = 250;

/** Lines of batches together are one account, too: while the store is away their answers wait for it. */
export const batchHolder = 'batches';

/**
 * Bounds the answers that this process holds, as bodies of requests are bounded: of the answers that have begun only the oldest continues
 * past the bound, and of one account only the oldest past a quarter of it (contract.md#ho2-bytes-of-answers). An answer that has no more
 * than one piece never waits. While an account's part is used up, the largest of its answers whose client is slow is ended, and while the
 * budget is, the largest of all: answers that wait for room take places at backends. Past twice the budget a client need not be slow.
 */
export function createAnswerBudget(deps: { bytesMax: number; onEnded?: () => void; clock?: Clock }): AnswerBudget {
  const { bytesMax, onEnded = () => {}, clock = systemClock } = deps;
  const answers = createHeldBytes<ReadProgress>(bytesMax);
  const paused = createPausedSources<ReadProgress>({ held: answers });
  const slow = createSlowReaders({ answers, bytesMax, clock, end });

  function end(answer: HeldSource<ReadProgress>): void {
    const { end: whenSlow } = answer;
    leave(answer);
    whenSlow?.();
    onEnded();
  }

  function add(answer: HeldSource<ReadProgress>, bytes: number): void {
    if (answer.hasLeft) return;
    answers.add(answer, bytes);
    if (answer.bytes === 0) slow.remove(answer);
    if (bytes < 0) paused.resumeWhatFits();
    else if (answer.bytes > pieceBytes && answers.arriving.has(answer) && !answers.mayContinue(answer))
      paused.pause(answer);
    slow.makeRoomFor(answer);
  }

  function arrived(answer: HeldSource<ReadProgress>): void {
    answers.arrived(answer);
    paused.remove(answer);
    paused.resumeWhatFits();
  }

  function leave(answer: HeldSource<ReadProgress>): void {
    if (answer.hasLeft) return;
    slow.remove(answer);
    answer.end = undefined;
    answers.leave(answer);
    arrived(answer);
  }

  const begin = (holder: string, source: Source) => answers.begin(holder, source, { slowAt: 0, end: undefined });
  return {
    hold: (holder) =>
      createHeldAnswer((source) => begin(holder, source), { add, arrived, leave, stall: slow.stall, flow: slow.flow }),
    bytesHeld: answers.bytes,
    paused: paused.count,
  };
}

type SlowReadersDeps = {
  answers: HeldBytes<ReadProgress>;
  bytesMax: number;
  clock: Clock;
  end: (answer: HeldSource<ReadProgress>) => void;
};

/** The answers that wait for their clients. Those of slow clients make room. */
function createSlowReaders({ answers, bytesMax, clock, end }: SlowReadersDeps) {
  const stalled = new Set<HeldSource<ReadProgress>>();
  let isLooking = false;

  const isOver = (answer: HeldSource<ReadProgress>) => answers.isFull() || answers.isAccountFull(answer);

  function largestSlow(): HeldSource<ReadProgress> | undefined {
    const now = clock.now();
    const isSlow = ({ slowAt }: HeldSource<ReadProgress>) => slowAt <= now;
    const ofAccounts = largestOf(stalled, (answer) => isSlow(answer) && answers.isAccountFull(answer));
    if (ofAccounts !== undefined || !answers.isFull()) return ofAccounts;
    return largestOf(stalled, (answer) => isSlow(answer) || answers.isFull(-bytesMax));
  }

  function makeRoom(): void {
    for (let largest = largestSlow(); largest !== undefined; largest = largestSlow()) end(largest);
    lookLater();
  }

  function lookLater(): void {
    if (isLooking || ![...stalled].some(isOver)) return;
    isLooking = true;
    clock.after(lookEveryMs, () => {
      isLooking = false;
      makeRoom();
    });
  }

  return {
    makeRoomFor(answer: HeldSource<ReadProgress>): void {
      if (isOver(answer)) makeRoom();
    },
    remove: (answer: HeldSource<ReadProgress>) => stalled.delete(answer),
    stall(answer: HeldSource<ReadProgress>, whenSlow: () => void): void {
      if (answer.hasLeft || stalled.has(answer)) return;
      answer.slowAt = clock.now() + behindMsMax;
      answer.end = whenSlow;
      stalled.add(answer);
      lookLater();
    },
    flow(answer: HeldSource<ReadProgress>, bytes: number): void {
      const now = clock.now();
      const slowAt = Math.max(answer.slowAt, now) + (bytes * 1_000) / slowBytesPerSecond;
      answer.slowAt = Math.min(slowAt, now + behindMsMax);
    },
  };
}

type Steps = {
  add(answer: HeldSource<ReadProgress>, bytes: number): void;
  stall(answer: HeldSource<ReadProgress>, end: () => void): void;
  flow(answer: HeldSource<ReadProgress>, bytes: number): void;
} & Record<'arrived' | 'leave', (answer: HeldSource<ReadProgress>) => unknown>;

function createHeldAnswer(begin: (source: Source) => HeldSource<ReadProgress>, steps: Steps): HeldAnswer {
  let answer: HeldSource<ReadProgress> | undefined;

  function release(): void {
    if (answer !== undefined) steps.leave(answer);
  }

  return {
    readFrom(source) {
      release();
      answer = begin(source);
    },
    add: (bytes) => answer && steps.add(answer, bytes),
    arrived: () => answer && steps.arrived(answer),
    stall: (end) => answer && steps.stall(answer, end),
    flow: (bytes) => answer && steps.flow(answer, bytes),
    release,
    [Symbol.dispose]: release,
  };
}

function largestOf(answers: Iterable<HeldSource<ReadProgress>>, mayEnd: (answer: HeldSource<ReadProgress>) => boolean) {
  let largest: HeldSource<ReadProgress> | undefined;
  for (const answer of answers) if (mayEnd(answer) && answer.bytes > (largest?.bytes ?? 0)) largest = answer;
  return largest;
}
