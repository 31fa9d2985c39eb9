import type { Batch } from '../../shared/batches/batch.ts';
import type { Release } from '../../shared/limits/release.ts';
import type { PlanFile } from '../../shared/plan-file/plan-file.ts';
import type { Log } from '../../shared/process/log.ts';
import type { Backoff } from '../upkeep/backoff.ts';
import { type AccountEvent, type AccountState, linesInProgress, mayQueueMore } from './account-state.ts';
import { type BatchFeed, isRefused, type NextLine, type RefusedNextLine } from './files/batch-feed.ts';
import { createMayQueue } from './line-window.ts';
import { batchJobOf } from './lines/batch-job.ts';
import type { LineQueue } from './lines/line-queue.ts';
import { refusedLine } from './lines/line-results.ts';
import type { WriteResult } from './lines/write-results.ts';

/** Refused lines whose results are being written. */
const endingMax = 100;

/**
 * Queues lines of an account's batches while it may have more in progress: one line of each batch in turn, so that a small batch that was
 * submitted last does not wait for a large one. Does not fail.
 */
export function createQueueLines(deps: {
  account: string;
  state: () => AccountState;
  dispatch: (event: AccountEvent) => Promise<void>;
  feeds: ReadonlyMap<string, BatchFeed>;
  /** The pauses of batches whose lines could not be queued. */
  backoff: Backoff<string>;
  currentPlanFile: () => Pick<PlanFile, 'plans'>;
  queue: Pick<LineQueue, 'add'>;
  writeResult: WriteResult;
  release: Release;
  /** This worker's control stream, to which the events of its lines are sent. */
  control: string;
  signal: AbortSignal;
  log: Log;
}): () => Promise<void> {
  const { account, state, dispatch, feeds, backoff, currentPlanFile, signal } = deps;
  const ending = new Set<Promise<void>>();

  return async function queueLines() {
    for (let queued = 1; queued > 0; ) {
      queued = 0;
      for (const { batch } of [...state().batches.values()]) {
        if (signal.aborted || !mayQueueMore(state(), currentPlanFile().plans, Date.now())) return;
        const feed = feeds.get(batch.id);
        if (feed !== undefined && !backoff.waits(batch.id) && (await tryNext(batch, feed))) queued++;
      }
    }
  };

  /** A batch whose file cannot be read must not stop the others. */
  async function tryNext(batch: Batch, feed: BatchFeed): Promise<boolean> {
    const isHeld = () => feeds.get(batch.id) === feed;
    try {
      return await queueNext(batch, feed, isHeld);
    } catch (error) {
      if (isHeld()) pause(batch, error);
      return false;
    }
  }

  function pause({ id }: Batch, error: unknown): void {
    if (!backoff.waits(id))
      deps.log.warn({ err: error, batch: id }, 'lines of a batch could not be queued; trying again');
    backoff.failed(id);
  }

  async function queueNext(batch: Batch, feed: BatchFeed, isHeld: () => boolean): Promise<boolean> {
    const now = Date.now();
    const [inProgress, health] = [() => linesInProgress(state()), () => state().health];
    const line = await feed.next(now, createMayQueue({ inProgress, health, now }));
    if (line === undefined || !isHeld()) return false;
    try {
      await (isRefused(line) ? endSoon(batch, line, isHeld) : enqueue(batch, line));
    } catch (error) {
      // The same request again: if it was queued after all, there is one job of it, and a result is written only once.
      if (isHeld()) await dispatch({ type: 'not queued', batch: batch.id, line, now: Date.now() });
      throw error;
    }
    return true;
  }

  /** All lines of a file can be refused, and results that are written together take the store no longer than one. */
  async function endSoon(batch: Batch, line: RefusedNextLine, isHeld: () => boolean): Promise<void> {
    const ended = endRefused(batch, line).catch(async (error: unknown) => {
      if (signal.aborted || !isHeld()) return;
      pause(batch, error);
      await dispatch({ type: 'not queued', batch: batch.id, line, now: Date.now() });
    });
    ending.add(ended);
    void ended.finally(() => ending.delete(ended));
    if (ending.size >= endingMax) await Promise.race(ending);
  }

  async function enqueue(batch: Batch, line: NextLine): Promise<void> {
    const owner = { account, plan: state().plan?.name ?? '', tellTo: deps.control };
    await dispatch({ type: 'queued', batch: batch.id, line, now: Date.now() });
    await deps.queue.add(batchJobOf(batch, line, owner));
    backoff.succeeded(batch.id);
  }

  async function endRefused(batch: Batch, { line, customId, requestId, refused }: RefusedNextLine): Promise<void> {
    const { id, errorFormat } = batch;
    const result = refusedLine({ batch: id, line, customId, requestId, errorFormat }, refused);
    await deps.writeResult(result, batch, signal);
    // An earlier attempt may have been postponed with its lease.
    await deps.release({ account, keyId: batch.keyId, requestId, lane: 'batch', run: 'any' });
    backoff.succeeded(id);
    await dispatch({ type: 'rejected', batch: id, line });
  }
}
