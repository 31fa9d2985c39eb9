import type { LineInHand, MayQueue } from './batch-feed.ts';

/**
 * Lines of an account that wait in the queue of a model. Each account that has more keeps as many there, and the queue is
 * served in order: so accounts take turns, and one that has just come waits behind this many of each other account.
 */
const queuedPerModel = 16;
/** Lines of an account that are queued or in some worker's hands, where its plan does not say less. */
const inHandMax = 256;
/** A model of which nothing has started for so long has no workers, or full backends: other models need not wait for it. */
const stuckMs = 10_000;

type Window = { inHand: readonly LineInHand[]; atOnce: number | undefined; now: number };

/**
 * Whether an account may have one line more in hand. Its plan is for lines that run or are about to: those that were put off,
 * or wait for a model where nothing moves, hold nothing, and must not hold up the others.
 */
export function hasRoom({ inHand, atOnce = inHandMax, now }: Window): boolean {
  const isStill = new Map<string, boolean>();
  const moving = inHand.filter(({ state, model }) => {
    if (state === 'put off') return false;
    if (!isStill.has(model)) isStill.set(model, isStuck(ofModel(inHand, model), now));
    return isStill.get(model) !== true;
  });
  return inHand.length < inHandMax && moving.length < atOnce;
}

/** Whether an account may have one line more in the queue of a model. */
export function mayQueueFor({ inHand, now }: Omit<Window, 'atOnce'>, model: string): ReturnType<MayQueue> {
  const here = ofModel(inHand, model);
  if (here.length > 0 && isStuck(here, now)) return 'pass over';
  return here.filter(({ state }) => state === 'queued').length < queuedPerModel ? 'yes' : 'wait';
}

function ofModel(inHand: readonly LineInHand[], model: string): LineInHand[] {
  return inHand.filter((line) => line.model === model);
}

function isStuck(lines: readonly LineInHand[], now: number): boolean {
  return lines.every(({ state, since }) => state !== 'started' && now - since > stuckMs);
}
