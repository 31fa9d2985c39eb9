import {
  type Batch,
  type BatchEnding,
  type BatchError,
  type BatchState,
  type BatchUsage,
  batchErrorsMax,
  type ErrorCounts,
} from './batch.ts';

/** `lines` is how many results are counted before this step: it applies only to a batch that has counted as many. */
export type ProgressStep = { lines: number; next: NonNullable<Batch['progress']> };

/**
 * An event of a batch. `validated`: its file is valid. `refused`: its file has errors. `counted`: the current counts of results, and the
 * first line that may have no result. `ran`: every line has its result. `written`: its files exist, with results of this usage. `cleared`:
 * nothing is left to clean up.
 */
export type BatchEvent =
  | { type: 'validated'; total: number; model?: string }
  | { type: 'refused'; errors: readonly BatchError[] }
  | { type: 'counted'; completed: number; failed: number; position: Batch['position']; progress?: ProgressStep }
  | { type: 'cancel' | 'expire' | 'ran' | 'cleared' }
  | {
      type: 'written';
      completed: number;
      failed: number;
      usage: BatchUsage;
      errorCounts: ErrorCounts;
      outputFile?: string;
      errorFile?: string;
    };

type Moves = { [Type in BatchEvent['type']]: readonly BatchState[] };

/** The states in which each event applies; in any other state it changes nothing (contract.md#f3-states). */
const from: Moves = {
  validated: ['validating'],
  refused: ['validating'],
  counted: ['in_progress', 'finalizing', 'cancelling'],
  cancel: ['validating', 'in_progress'],
  // A file that cannot be validated, for any reason, must not keep its batch open forever.
  expire: ['validating', 'in_progress'],
  ran: ['in_progress'],
  written: ['finalizing', 'cancelling'],
  cleared: ['failed', 'completed', 'expired', 'cancelled'],
};

/** Returns whether the batch will not change any more for its owner. */
export function isOver({ state }: Pick<Batch, 'state'>): boolean {
  return from.cleared.includes(state);
}

/** Returns whether a change has ended the batch for its owner. */
export function hasJustEnded(before: Pick<Batch, 'state'>, next: Pick<Batch, 'state'>): boolean {
  return isOver(next) && !isOver(before);
}

/** Returns whether its lines may run. */
export function isRunning({ state }: Pick<Batch, 'state'>): boolean {
  return state === 'in_progress';
}

/**
 * Returns the batch after this event, or undefined if the event does not apply in the batch's state: then it has already happened, or
 * another event came first. Counts only grow.
 */
export function nextBatch(batch: Batch, event: BatchEvent, at: Date): Batch | undefined {
  return from[event.type].includes(batch.state) ? move(batch, event, at) : undefined;
}

function move(batch: Batch, event: BatchEvent, at: Date): Batch | undefined {
  switch (event.type) {
    case 'validated':
      return {
        ...batch,
        state: 'in_progress',
        inProgressAt: at,
        counts: { ...batch.counts, total: event.total },
        ...(event.model !== undefined && { model: event.model }),
      };
    case 'refused':
      return { ...batch, state: 'failed', failedAt: at, errors: event.errors.slice(0, batchErrorsMax) };
    case 'counted':
      return {
        ...batch,
        counts: grown(batch, event),
        position: later(batch.position, event.position),
        ...(isNext(batch, event.progress) && { progress: event.progress.next }),
      };
    case 'cancel':
      return { ...batch, state: 'cancelling', cancellingAt: at, ending: 'cancelled' };
    case 'expire':
      return { ...batch, state: 'finalizing', finalizingAt: at, ending: 'expired' };
    case 'ran':
      return { ...batch, state: 'finalizing', finalizingAt: at, ending: 'completed' };
    case 'written':
      return end(batch, event, at);
    case 'cleared':
      return { ...batch, open: false };
  }
}

const endedAt = { completed: 'completedAt', expired: 'expiredAt', cancelled: 'cancelledAt' } as const satisfies Record<
  BatchEnding,
  keyof Batch
>;

/** Whether a step of progress follows what the batch has counted. If another worker has counted meanwhile, it does not. */
export function isNext(batch: Pick<Batch, 'progress'>, step: ProgressStep | undefined): step is ProgressStep {
  return step !== undefined && (batch.progress?.lines ?? 0) === step.lines;
}

function end(
  { progress: _, ...batch }: Batch,
  event: Extract<BatchEvent, { type: 'written' }>,
  at: Date,
): Batch | undefined {
  if (batch.ending === undefined) return undefined;
  const { outputFile, errorFile, usage, errorCounts } = event;
  return {
    ...batch,
    state: batch.ending,
    [endedAt[batch.ending]]: at,
    counts: grown(batch, event),
    usage,
    errorCounts,
    ...(outputFile !== undefined && { outputFile }),
    ...(errorFile !== undefined && { errorFile }),
  };
}

function grown({ counts }: Batch, { completed, failed }: { completed: number; failed: number }): Batch['counts'] {
  return {
    total: counts.total,
    completed: Math.max(counts.completed, completed),
    failed: Math.max(counts.failed, failed),
  };
}

function later(one: Batch['position'], other: Batch['position']): Batch['position'] {
  return other.line > one.line ? other : one;
}
