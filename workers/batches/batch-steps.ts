import type { Histogram } from 'prom-client';
import type { Batch } from '../../shared/batches/batch.ts';
import { leaveRoom } from '../../shared/batches/batch-room.ts';
import { type BatchEvent, hasJustEnded, isOver, nextBatch } from '../../shared/batches/batch-states.ts';
import type { Log } from '../../shared/process/log.ts';
import type { BatchStore } from '../../shared/store/records/batch-store.ts';
import { createBackoff } from '../upkeep/backoff.ts';
import type { createClearBatch, createCloseBatch } from './files/close-batch.ts';
import type { createValidateBatch } from './files/validate-batch.ts';
import type { createWriteBatchFiles } from './files/write-batch-files.ts';

export type StepDeps = {
  store: Pick<BatchStore, 'changeBatch' | 'changeRoom'>;
  validateBatch: ReturnType<typeof createValidateBatch>;
  closeBatch: ReturnType<typeof createCloseBatch>;
  writeBatchFiles: ReturnType<typeof createWriteBatchFiles>;
  clearBatch: ReturnType<typeof createClearBatch>;
  metrics: { batchDuration: Histogram<'state'> };
  /** Redis's time, in milliseconds. */
  now: () => Promise<number>;
  log: Log;
};

/** Files are large, and reading one takes much of the process. Cancellations do not wait for validations. */
const validationsAtOnce = 2;
const closingsAtOnce = 4;
/** The pauses before a failed step is tried again, without jitter. Other steps run meanwhile. */
const failing = { firstMs: 1_000, maxMs: 60_000, random: () => 1 };

type Step = Pick<Batch, 'account' | 'state'> & { controller: AbortController; running: Promise<void> };

/**
 * The decision of a step is written by a guarded update. If two workers run one account for a while, one of them writes it, and the other
 * finds that the batch has moved.
 */
export function createBatchSteps(
  deps: StepDeps & {
    /** Aborts all steps. */
    signal: AbortSignal;
    /** A batch has reached its next state. */
    onMoved: () => void;
  },
) {
  const { store, log, signal, onMoved } = deps;
  const steps = new Map<string, Step>();
  const backoff = createBackoff<string>(failing);

  async function move({ id, account }: Batch, event: BatchEvent): Promise<void> {
    const now = await deps.now();
    const moved = await store.changeBatch(id, (found) => {
      const next = found && nextBatch(found, event, new Date(now));
      return { result: next && { ...next, isEnd: hasJustEnded(found, next) }, ...(next && { next }) };
    });
    if (moved === undefined) return;
    const { state, createdAt, isEnd } = moved;
    if (isEnd) {
      deps.metrics.batchDuration.observe({ state }, (now - createdAt.getTime()) / 1_000);
      await store.changeRoom(account, leaveRoom([id])); // the next step repeats it if this process dies
    }
    if (event.type !== 'cleared') log.info({ batch: id, account, state, event: event.type }, 'a batch has moved');
    onMoved();
  }

  async function run(batch: Batch, step: () => Promise<BatchEvent | undefined>, aborted: AbortSignal): Promise<void> {
    try {
      const event = await step();
      backoff.succeeded(batch.id);
      if (event !== undefined) await move(batch, event);
    } catch (error) {
      if (aborted.aborted) return;
      backoff.failed(batch.id);
      log.warn({ err: error, batch: batch.id }, 'a step of a batch failed; trying again');
    } finally {
      steps.delete(batch.id);
    }
  }

  return {
    /** Starts the step for the batch's state, unless it is running. Aborts a step for an earlier state. */
    advance(batch: Batch, now: number): void {
      const current = steps.get(batch.id);
      if (current !== undefined) {
        if (current.state !== batch.state) current.controller.abort(new Error('the batch has moved'));
        return;
      }
      if (!hasRoomFor(batch, [...steps.values()]) || backoff.waits(batch.id)) return;
      const controller = new AbortController();
      const aborted = AbortSignal.any([signal, controller.signal]);
      const step = stepOf(deps, batch, { now, signal: aborted });
      if (step === undefined) return;
      const { account, state } = batch;
      steps.set(batch.id, { account, state, controller, running: run(batch, step, aborted) });
    },
    /** Aborts the steps of an account's batches. */
    stop(account: string): void {
      for (const step of steps.values()) {
        if (step.account === account)
          step.controller.abort(new Error('this worker does not hold the account any more'));
      }
    },
    /** Forgets the failures of all other batches. */
    forgetOthers: backoff.keepOnly,
    /** Resolves when the steps that are running now have ended. */
    ended: (): Promise<unknown> => Promise.all([...steps.values()].map(({ running }) => running)),
  };
}

/** The steps that bring batches from one state to the next, except running their lines. */
export type BatchSteps = ReturnType<typeof createBatchSteps>;

/** Undefined if the batch's state has no step. */
function stepOf(
  deps: Pick<StepDeps, 'store' | 'validateBatch' | 'closeBatch' | 'writeBatchFiles' | 'clearBatch'>,
  batch: Batch,
  { now, signal }: { now: number; signal: AbortSignal },
): (() => Promise<BatchEvent | undefined>) | undefined {
  const isLate = batch.expiresAt.getTime() <= now;
  if (isLate && (batch.state === 'validating' || batch.state === 'in_progress'))
    return async () => ({ type: 'expire' });
  if (batch.state === 'validating') return async () => deps.validateBatch(batch, signal);
  if (batch.state === 'in_progress') return undefined;
  if (isOver(batch)) {
    return async () => {
      // If the process that ended it has died. Not only after it is cleared, which may take long.
      await deps.store.changeRoom(batch.account, leaveRoom([batch.id]));
      return (await deps.clearBatch(batch, signal)) ? { type: 'cleared' } : undefined;
    };
  }
  return async () => {
    await deps.closeBatch(batch, { now, signal });
    return deps.writeBatchFiles(batch, { now, signal });
  };
}

/** An account has one validation at a time: it may submit many batches, and other accounts wait. */
function hasRoomFor({ account, state }: Batch, running: readonly Step[]): boolean {
  const validations = running.filter((step) => step.state === 'validating');
  if (state === 'validating') {
    return validations.length < validationsAtOnce && validations.every((step) => step.account !== account);
  }
  const alike = running.filter(
    (step) => isClosing(step) === isClosing({ state }) && isOver(step) === isOver({ state }),
  );
  return state === 'in_progress' || alike.length < closingsAtOnce;
}

function isClosing({ state }: Pick<Batch, 'state'>): boolean {
  return state === 'cancelling' || state === 'finalizing';
}
