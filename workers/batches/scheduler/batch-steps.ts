import type { Batch } from '../../../shared/batches/batch.ts';
import { type BatchEvent, isOver, nextBatch } from '../../../shared/batches/batch-states.ts';
import type { Log } from '../../../shared/process/log.ts';
import type { BatchStore } from '../../../shared/store/batches/batch-store.ts';
import type { createClearBatch } from '../files/clear-batch.ts';
import type { createCloseBatch } from '../files/close-batch.ts';
import type { createValidateBatch } from '../files/validate-batch.ts';
import type { createWriteBatchFiles } from '../files/write-batch-files.ts';

/** The steps that bring batches from one state to the next, except running their lines. */
export interface BatchSteps {
  /** Takes the step that this batch's state asks for, unless it is being taken; one for a state that has passed ends. */
  advance(batch: Batch, now: number): void;
  /** Ends the steps of an account's batches. */
  stop(account: string): void;
  /** Forgets the failures of all batches but these. */
  forgetOthers(ids: ReadonlySet<string>): void;
  /** Resolves when the steps that are being taken now have ended. */
  ended(): Promise<unknown>;
}

export type StepParts = {
  store: Pick<BatchStore, 'changeBatch'>;
  validateBatch: ReturnType<typeof createValidateBatch>;
  closeBatch: ReturnType<typeof createCloseBatch>;
  writeBatchFiles: ReturnType<typeof createWriteBatchFiles>;
  clearBatch: ReturnType<typeof createClearBatch>;
  /** Redis's time, in milliseconds. */
  now: () => Promise<number>;
  log: Log;
};

/** Files are large, and reading one is work for the whole process; what is cancelled does not wait for those. */
const validationsAtOnce = 2;
const closingsAtOnce = 4;
/** A step that has failed is tried again after a pause that grows to this, and others are tried meanwhile. */
const failedPauseMsMax = 60_000;

type Step = Pick<Batch, 'account' | 'state'> & { controller: AbortController; taking: Promise<void> };

/**
 * What a step decides is written by a guarded update. If two workers look after one account for a while, one of them writes it, and the
 * other finds that the batch has moved.
 */
export function createBatchSteps(
  deps: StepParts & {
    /** Ends all steps. */
    signal: AbortSignal;
    /** A batch has come to its next state. */
    onMoved: () => void;
  },
): BatchSteps {
  const { store, log, signal, onMoved } = deps;
  const steps = new Map<string, Step>();
  const failed = new Map<string, { times: number; until: number }>();

  /** One validation of an account at a time: it may hand in many, and others wait. */
  function hasRoomFor({ account, state }: Batch): boolean {
    const taken = [...steps.values()];
    const validations = taken.filter((step) => step.state === 'validating');
    if (state === 'validating') {
      return validations.length < validationsAtOnce && validations.every((step) => step.account !== account);
    }
    const alike = taken.filter(
      (step) => isClosing(step) === isClosing({ state }) && isOver(step) === isOver({ state }),
    );
    return state === 'in_progress' || alike.length < closingsAtOnce;
  }

  function noteFailure(id: string): void {
    const times = (failed.get(id)?.times ?? 0) + 1;
    failed.set(id, { times, until: performance.now() + Math.min(failedPauseMsMax, 500 * 2 ** times) });
  }

  function stepOf(batch: Batch, now: number, signal: AbortSignal): (() => Promise<BatchEvent | undefined>) | undefined {
    const isLate = batch.expiresAt.getTime() <= now;
    if (isLate && (batch.state === 'validating' || batch.state === 'in_progress'))
      return async () => ({ type: 'expire' });
    if (batch.state === 'validating') return () => deps.validateBatch(batch, signal);
    if (batch.state === 'in_progress') return undefined;
    if (isOver(batch)) {
      return async () => ((await deps.clearBatch(batch, signal)) ? { type: 'cleared' } : undefined);
    }
    return async () => {
      await deps.closeBatch(batch, { now, signal });
      return deps.writeBatchFiles(batch, { now, signal });
    };
  }

  async function move({ id, account }: Batch, event: BatchEvent): Promise<void> {
    const now = await deps.now();
    const state = await store.changeBatch(id, (found) => {
      const next = found && nextBatch(found, event, new Date(now));
      return { result: next?.state, ...(next && { next }) };
    });
    if (state === undefined) return;
    if (event.type !== 'cleared') log.info({ batch: id, account, state, event: event.type }, 'a batch has moved');
    onMoved();
  }

  return {
    advance(batch, now) {
      const current = steps.get(batch.id);
      if (current !== undefined) {
        if (current.state !== batch.state) current.controller.abort(new Error('the batch has moved'));
        return;
      }
      if (!hasRoomFor(batch) || (failed.get(batch.id)?.until ?? 0) > performance.now()) return;
      const controller = new AbortController();
      const step = stepOf(batch, now, AbortSignal.any([signal, controller.signal]));
      if (step === undefined) return;
      const taking = step()
        .then((event) => {
          failed.delete(batch.id);
          return event;
        })
        .then((event) => (event === undefined ? undefined : move(batch, event)))
        .catch((error: unknown) => {
          if (signal.aborted || controller.signal.aborted) return;
          noteFailure(batch.id);
          log.warn({ err: error, batch: batch.id }, 'a batch could not go on; trying again');
        })
        .finally(() => steps.delete(batch.id));
      steps.set(batch.id, { account: batch.account, state: batch.state, controller, taking });
    },
    stop(account) {
      for (const step of steps.values())
        if (step.account === account) step.controller.abort(new Error('it is held no more'));
    },
    forgetOthers(ids) {
      for (const id of failed.keys()) if (!ids.has(id)) failed.delete(id);
    },
    ended: () => Promise.all([...steps.values()].map(({ taking }) => taking)),
  };
}

function isClosing({ state }: Pick<Batch, 'state'>): boolean {
  return state === 'cancelling' || state === 'finalizing';
}
