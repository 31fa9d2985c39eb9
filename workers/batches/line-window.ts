import type { MayQueue } from './files/batch-feed.ts';
import type { WaitingLine } from './files/waiting-lines.ts';
import { isUnavailable, type ModelHealth, mayProbe } from './model-health.ts';

/**
 * A line that is queued, running, or postponed by a worker. `since` is when the last event of it arrived. `isDoubtful` is set if it may
 * have no job any more.
 */
export type LineInProgress = Pick<WaitingLine, 'line' | 'number' | 'failures' | 'losses' | 'model'> & {
  requestId: string;
  customId: string;
  /** The name that the client sent, if it is an alias. */
  requestedModel?: string;
  state: 'queued' | 'started' | 'postponed';
  since: number;
  isDoubtful: boolean;
};

/**
 * Lines of an account that wait in the queue of a model. Each account that has more lines keeps this many there, and the queue is served
 * in order. So accounts take turns, and an account that has just come waits behind this many lines of each other account
 * (contract.md#f6-window-and-turns).
 */
const queuedPerModel = 16;
/** Lines in progress of an account, if its plan does not set a lower limit (contract.md#u2-line-window). */
const inProgressMax = 256;
/** If no line of a model started for this long, it has no workers, or its backends are full. Lines of other models do not wait for it. */
const stuckMs = 10_000;

type Window = { inProgress: readonly LineInProgress[]; atOnce: number | undefined; now: number };

/**
 * Whether an account may have one more line in progress. The limit of its plan is for lines that run or are about to. Postponed lines,
 * and lines that wait for a stuck model, use no capacity and must not delay the others.
 */
export function hasRoom({ inProgress, atOnce = inProgressMax, now }: Window): boolean {
  const isStill = new Map<string, boolean>();
  const moving = inProgress.filter(({ state, model }) => {
    if (state === 'postponed') return false;
    if (!isStill.has(model)) isStill.set(model, isStuck(ofModel(inProgress, model), now));
    return isStill.get(model) !== true;
  });
  return inProgress.length < inProgressMax && moving.length < atOnce;
}

/** Whether an account may have one more line in the queue of a model, which is available. */
export function mayQueueFor({ inProgress, now }: Omit<Window, 'atOnce'>, model: string): 'yes' | 'wait' | 'skip' {
  const here = ofModel(inProgress, model);
  if (here.length > 0 && isStuck(here, now)) return 'skip';
  return here.filter(({ state }) => state === 'queued').length < queuedPerModel ? 'yes' : 'wait';
}

/**
 * Whether an account may queue a line, for one model after another. Counts the lines once for each model, because a feed may ask for
 * thousands of lines. `health` is read each time, because it may change meanwhile.
 */
export function createMayQueue({
  inProgress,
  health,
  now,
}: {
  inProgress: () => readonly LineInProgress[];
  health: () => ModelHealth;
  now: number;
}): MayQueue {
  const windows = new Map<string, ReturnType<typeof mayQueueFor>>();
  return function mayQueue(model) {
    const isDown = isUnavailable(health(), model);
    if (isDown && !mayProbe(health(), model, now)) return 'skip';
    const verdict = windows.get(model) ?? mayQueueFor({ inProgress: inProgress(), now }, model);
    windows.set(model, verdict);
    if (!isDown) return verdict;
    return verdict === 'yes' ? 'probe' : 'skip';
  };
}

function ofModel(inProgress: readonly LineInProgress[], model: string): LineInProgress[] {
  return inProgress.filter((line) => line.model === model);
}

function isStuck(lines: readonly LineInProgress[], now: number): boolean {
  return lines.every(({ state, since }) => state !== 'started' && now - since > stuckMs);
}
