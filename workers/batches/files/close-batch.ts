import { setTimeout as sleep } from 'node:timers/promises';
import type { Batch, BatchResult } from '../../../shared/batches/batch.ts';
import { FileGone, readLines } from '../../../shared/batches/split-lines.ts';
import { nextTurn } from '../../../shared/concurrency/in-turn.ts';
import type { Release } from '../../../shared/limits/release.ts';
import type { PlanFile } from '../../../shared/plan-file/plan-file.ts';
import type { Store } from '../../../shared/store/records/store.ts';
import { requestIdOf } from '../lines/batch-job.ts';
import type { LineQueue, QueuedLine } from '../lines/line-queue.ts';
import { failedLine, unfinished } from '../lines/line-results.ts';
import type { WriteResult } from '../lines/write-results.ts';
import { readNameAndModel } from './parse-line.ts';

/** A line without a result, and the job that it may have. */
type OpenLine = Pick<BatchResult, 'batch' | 'line' | 'customId' | 'requestId'> & QueuedLine;

const linesAtOnce = 200;
const removedAtOnce = 500;
/** Running lines end, or are stopped by their workers, within this time of the end of their batch. */
const endsWithinMs = 10_000;
const lookEveryMs = 250;

type Deps = {
  store: Pick<Store, 'batches' | 'files'>;
  queue: Pick<LineQueue, 'remaining' | 'remove'>;
  release: Release;
  /** The requests of an account's lines that hold leases. */
  heldBy: (account: string) => Promise<ReadonlySet<string>>;
  writeResult: WriteResult;
  currentPlanFile: () => Pick<PlanFile, 'models' | 'aliases'>;
};

/**
 * Writes a result for every line of a batch that was cancelled or has expired (contract.md#u6-closing-a-batch). Running lines get a few
 * seconds to end on their own. After that no line can end in any other way, even if a worker still runs it. Can be repeated. Fails as the
 * store does, and with the reason of `signal`.
 */
export function createCloseBatch(deps: Deps) {
  const { store, queue, writeResult, currentPlanFile } = deps;
  const takeOut = createTakeOut(deps);

  return async function closeBatch(batch: Batch, { now, signal }: { now: number; signal: AbortSignal }): Promise<void> {
    if (batch.inProgressAt === undefined || batch.ending === undefined || batch.ending === 'completed') return;
    const since = (batch.cancellingAt ?? batch.finalizingAt ?? batch.createdAt).getTime();
    const endsAt = performance.now() + Math.max(0, since + endsWithinMs - now);
    const running: OpenLine[] = [];
    for await (const lines of openLines(store, currentPlanFile(), batch)) {
      signal.throwIfAborted();
      const left = await takeOut(batch, lines);
      running.push(...lines.filter((line) => left.has(line.requestId)));
      const out = lines.filter((line) => !left.has(line.requestId));
      await end(batch, out, signal);
    }
    while (running.length > 0 && performance.now() < endsAt && (await queue.remaining(running)).size > 0) {
      await sleep(lookEveryMs, undefined, { signal });
    }
    await end(batch, running, signal);
    await requireOpen(batch);
  };

  /** A worker that was frozen may close a batch that another worker has closed and cleared. Its results would never be removed. */
  async function requireOpen({ id }: Batch): Promise<void> {
    const found = await store.batches.findBatch(id);
    if (found?.open === true) return;
    while (!(await store.batches.removeResults(id, removedAtOnce)));
    throw new Error('the batch was closed and cleared by another worker meanwhile');
  }

  /** The first result of a line is kept: a line that has ended on its own meanwhile keeps its result. */
  async function end(batch: Batch, lines: readonly OpenLine[], signal: AbortSignal): Promise<void> {
    const error = batch.ending === 'cancelled' ? unfinished.cancelled : unfinished.expired;
    const results = lines.map((line) => failedLine(line, error));
    await Promise.all(results.map((result) => writeResult(result, batch, signal)));
  }
}

/** Removes the jobs that no worker has, and releases their leases. Returns the requests of the others. */
function createTakeOut({ queue, release, heldBy }: Pick<Deps, 'queue' | 'release' | 'heldBy'>) {
  return async function takeOut({ account, keyId }: Batch, lines: readonly OpenLine[]): Promise<Set<string>> {
    const present = await queue.remaining(lines);
    for (const line of lines.filter(({ requestId }) => present.has(requestId))) {
      if (await queue.remove(line)) present.delete(line.requestId);
    }
    const out = lines.filter(({ requestId }) => !present.has(requestId));
    const held = await heldBy(account);
    const holding = out.filter(({ requestId }) => held.has(requestId));
    await Promise.all(
      holding.map(({ requestId }) => release({ account, keyId, requestId, lane: 'batch', run: 'any' })),
    );
    return present;
  };
}

async function* openLines(
  store: Deps['store'],
  planFile: ReturnType<Deps['currentPlanFile']>,
  batch: Batch,
): AsyncGenerator<OpenLine[]> {
  const { id, inputFile, position } = batch;
  const ended = new Set(await store.batches.listEndedLines(id, position.line));
  const numbers = new Map((await store.batches.listRetries(id)).map(({ line, number }) => [line, number]));
  let lines: OpenLine[] = [];
  try {
    for await (const line of readLines(store.files, inputFile, position)) {
      if (ended.has(line.number)) continue;
      lines.push({
        batch: id,
        line: line.number,
        ...readNameAndModel(line, planFile),
        requestId: requestIdOf(id, line.number, numbers.get(line.number) ?? 1),
      });
      if (lines.length < linesAtOnce) continue;
      yield lines;
      lines = [];
    }
  } catch (error) {
    // Without the file, the names of its lines are unknown.
    if (!(error instanceof FileGone)) throw error;
  }
  yield lines;
}

/** After this many lines the event loop continues. */
const linesPerTurn = 500;

/**
 * Removes the results of a batch that is over from the store. They are in its files by then. False while a job of one of its lines exists,
 * because that job charges what a result says.
 */
export function createClearBatch({
  store,
  queue,
}: {
  store: Pick<Store, 'batches'>;
  queue: Pick<LineQueue, 'remaining'>;
}) {
  /** The jobs that existed at the last check. All others are gone. */
  const left = new Map<string, QueuedLine[]>();

  return async function clearBatch(batch: Batch, signal: AbortSignal): Promise<boolean> {
    const checked = left.get(batch.id) ?? (await jobsOf(batch));
    const present = await queue.remaining(checked);
    left.delete(batch.id);
    if (present.size > 0) {
      left.set(
        batch.id,
        checked.filter(({ requestId }) => present.has(requestId)),
      );
      return false;
    }
    while (!(await store.batches.removeResults(batch.id, removedAtOnce))) signal.throwIfAborted();
    return true;
  };

  async function jobsOf({ id }: Batch): Promise<QueuedLine[]> {
    const lines = await store.batches.listEndedLines(id, 1);
    const numbers = new Map((await store.batches.listRetries(id)).map(({ line, number }) => [line, number]));
    const jobs: QueuedLine[] = [];
    for (const [index, line] of lines.entries()) {
      jobs.push({ requestId: requestIdOf(id, line, numbers.get(line) ?? 1) });
      if (index % linesPerTurn === 0) await nextTurn();
    }
    return jobs;
  }
}
