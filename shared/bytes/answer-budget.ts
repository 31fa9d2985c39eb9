import { guestPlan } from '../plan-file/plan-file-schema.ts';
import { type Clock, systemClock } from './clock.ts';
import { createHeldBytes, type Held, type Source } from './held-bytes.ts';
import { createPausedSources, pieceBytes } from './paused-sources.ts';

/** What this process holds of one answer, until it is disposed of or released. */
export interface HeldAnswer extends Disposable {
  /** The answer comes from this source, which is paused while there is no room. What was held of an earlier one is released. */
  readFrom(source: Source): void;
  /** Counts bytes that are held from now on, or that are no longer held if they are fewer than none. */
  add(bytes: number): void;
  /** All of it has arrived, so another one may continue. Its bytes still count. */
  arrived(): void;
  /** Its client does not read. `end` is called at most once, if that lasts and others need the room: nothing is held any more then. */
  stall(end: () => void): void;
  /** Its client has read. */
  flow(): void;
  /** Releases what is held so far. Another source may follow. */
  release(): void;
}

export interface AnswerBudget {
  hold(holder: string): HeldAnswer;
  bytesHeld(): number;
  /** Answers whose sources are paused. */
  paused(): number;
}

type Reading = { stalledAt: number; end: (() => void) | undefined };

/** A client that takes nothing for this long makes room for others. A worker hears of each 512 KiB that is taken. */
const stalledMsMax = 10_000;
const lookEveryMs = 250;

/** The account whose part of the budget an answer takes: all devices together are one. */
export function answerHolder({ account, plan }: { account: string; plan: string }): string {
  return plan === guestPlan ? guestPlan : account;
}

/**
 * Bounds the answers that this process holds, as bodies are bounded: of the answers that have begun only the oldest continues past the bound,
 * and of one account only the oldest past a quarter of it (contract.md#ho2-bytes-of-answers). An answer that has no more than one piece
 * never waits. While the budget is used up, the largest answer that its client does not read is ended, and while
 * an account's part is, the largest of that account: answers that wait for room take places at backends.
 */
export function createAnswerBudget(deps: { bytesMax: number; onEnded?: () => void; clock?: Clock }): AnswerBudget {
  const { bytesMax, onEnded = () => {}, clock = systemClock } = deps;
  const answers = createHeldBytes<Reading>(bytesMax);
  const stalled = new Set<Held<Reading>>();
  const paused = createPausedSources<Reading>({ held: answers });
  let isLooking = false;

  const isOver = (answer: Held<Reading>) => answers.isFull() || answers.isAccountFull(answer);

  function makeRoom(): void {
    const stalledBefore = clock.now() - stalledMsMax;
    const mayEnd = (answer: Held<Reading>) => answer.stalledAt <= stalledBefore && isOver(answer);
    for (let largest = largestOf(stalled, mayEnd); largest !== undefined; largest = largestOf(stalled, mayEnd)) {
      leave(largest);
      largest.end?.();
      onEnded();
    }
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

  function add(answer: Held<Reading>, bytes: number): void {
    if (answer.hasLeft) return;
    answers.add(answer, bytes);
    if (bytes < 0) paused.resumeWhatFits();
    else if (answer.bytes > pieceBytes && answers.arriving.has(answer) && !answers.mayContinue(answer))
      paused.pause(answer);
    if (isOver(answer)) makeRoom();
  }

  function arrived(answer: Held<Reading>): void {
    answers.arrived(answer);
    paused.remove(answer);
    paused.resumeWhatFits();
  }

  function leave(answer: Held<Reading>): void {
    if (answer.hasLeft) return;
    stalled.delete(answer);
    answers.leave(answer);
    arrived(answer);
  }

  function stall(answer: Held<Reading>, end: () => void): void {
    if (answer.hasLeft || stalled.has(answer)) return;
    answer.stalledAt = clock.now();
    answer.end = end;
    stalled.add(answer);
    lookLater();
  }

  const begin = (holder: string, source: Source) => answers.begin(holder, source, { stalledAt: 0, end: undefined });
  const flow = (answer: Held<Reading>) => stalled.delete(answer);
  return {
    hold: (holder) => createHeldAnswer((source) => begin(holder, source), { add, arrived, stall, flow, leave }),
    bytesHeld: answers.bytes,
    paused: paused.count,
  };
}

type Steps = {
  add(answer: Held<Reading>, bytes: number): void;
  stall(answer: Held<Reading>, end: () => void): void;
} & Record<'arrived' | 'flow' | 'leave', (answer: Held<Reading>) => unknown>;

function createHeldAnswer(begin: (source: Source) => Held<Reading>, steps: Steps): HeldAnswer {
  let answer: Held<Reading> | undefined;

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
    flow: () => answer && steps.flow(answer),
    release,
    [Symbol.dispose]: release,
  };
}

function largestOf(answers: Iterable<Held<Reading>>, mayEnd: (answer: Held<Reading>) => boolean) {
  let largest: Held<Reading> | undefined;
  for (const answer of answers) if (mayEnd(answer) && answer.bytes > (largest?.bytes ?? 0)) largest = answer;
  return largest;
}
