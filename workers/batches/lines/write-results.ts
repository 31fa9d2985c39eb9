import { setTimeout as sleep } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import type { Counter } from 'prom-client';
import type { BatchResult } from '../../../shared/batches/batch.ts';
import { ApiError } from '../../../shared/errors.ts';
import type { Log } from '../../../shared/process/log.ts';
import type { BatchStore } from '../../../shared/store/records/batch-store.ts';
import { failedLine, lineBytesOf, noRoomLeft } from './line-results.ts';
import type { ResultRoom, SizedResult } from './result-room.ts';

/** Whose line it is. */
type Owner = { account: string; endpoint: string };

/**
 * Writes the result of a line, and waits while the store is unavailable. Resolves with the stored result of the line: this one, an earlier
 * one, or an error that charges nothing if its account has no room for it. Fails with the reason of `signal`; then it is unknown whether
 * the result was written.
 */
export type WriteResult = (result: BatchResult, owner: Owner, signal: AbortSignal) => Promise<BatchResult>;
type PendingResult = {
  result: BatchResult;
  owner: Owner;
  /** The result counts for its account. */
  isCounted: boolean;
  signal: AbortSignal;
  resolve: (stored: BatchResult) => void;
  reject: (error: unknown) => void;
};

type FailedWrite = { results: readonly PendingResult[]; error: unknown };

const resultsAtOnce = 100;
/** SQLite writes about as many in 10 ms. */
const charactersAtOnce = 1_048_576;

/**
 * Results that come within `gatherMs`, or while others are written, are written together. A durable write takes the store as long for one
 * result as for many, and SQLite blocks the process meanwhile.
 */
export function createWriteResults({
  store,
  room,
  metrics,
  log,
  gatherMs = 20,
  pauseMs = 500,
}: {
  store: Pick<BatchStore, 'insertResults'>;
  room: Pick<ResultRoom, 'take' | 'giveBack'>;
  metrics: { batchLines: Counter<'endpoint' | 'outcome'> };
  log: Log;
  gatherMs?: number;
  pauseMs?: number;
}): WriteResult {
  const { count, giveBack } = createCounting({ room, log });
  let waiting: PendingResult[] = [];
  let isWriting = false;

  async function writeAll(): Promise<void> {
    isWriting = true;
    while (waiting.length > 0) {
      if (gatherMs > 0) await sleep(gatherMs);
      const taken = take();
      if (taken.length === 0) continue;
      const { counted, failed } = await count(taken);
      const failures = failed.map(({ results, error }) => putBack(results, error));
      await (counted.length > 0 ? write(counted).catch((error) => putBack(counted, error)) : Promise.all(failures));
    }
    isWriting = false;
  }

  async function write(counted: readonly PendingResult[]): Promise<void> {
    const stored = await store.insertResults(counted.map(({ result }) => result));
    const earlier = counted.filter((one, index) => !isDeepStrictEqual(stored[index] ?? one.result, one.result));
    await giveBack(earlier);
    for (const [index, one] of counted.entries()) {
      const { result, owner } = one;
      const outcome = result.error?.code ?? 'completed';
      if (!earlier.includes(one)) metrics.batchLines.inc({ endpoint: owner.endpoint, outcome });
      one.resolve(stored[index] ?? result);
    }
  }

  /** Takes the results for one call. Those whose writers were aborted are left out, and count no more. */
  function take(): PendingResult[] {
    const taken: PendingResult[] = [];
    const aborted: PendingResult[] = [];
    let characters = 0;
    while (waiting.length > 0 && taken.length < resultsAtOnce && characters < charactersAtOnce) {
      const next = waiting.shift();
      if (next === undefined) break;
      if (next.signal.aborted) aborted.push(next);
      else {
        taken.push(next);
        characters += next.result.body?.length ?? 0;
      }
    }
    void giveBack(aborted.filter(({ isCounted }) => isCounted));
    for (const { reject, signal } of aborted) reject(signal.reason);
    return taken;
  }

  async function putBack(taken: readonly PendingResult[], error: unknown): Promise<void> {
    const isUnavailable = error instanceof ApiError && error.code === 'SERVICE_UNAVAILABLE';
    if (!isUnavailable) {
      for (const { reject } of taken) reject(error);
      return;
    }
    log.warn({ err: error, results: taken.length }, 'results of batches could not be stored; trying again');
    waiting = [...taken, ...waiting];
    await sleep(pauseMs * (0.5 + Math.random()));
  }

  return function writeResult(result, { account, endpoint }, signal) {
    const { promise, resolve, reject } = Promise.withResolvers<BatchResult>();
    waiting.push({ result, owner: { account, endpoint }, isCounted: false, signal, resolve, reject });
    if (!isWriting) void writeAll();
    return promise;
  };
}

/** Counts results for their accounts. */
function createCounting({ room, log }: { room: Pick<ResultRoom, 'take' | 'giveBack'>; log: Log }) {
  return {
    /** Before they are written. One without room becomes an error. If this fails for a batch, those of others are counted. */
    async count(taken: readonly PendingResult[]): Promise<{ counted: PendingResult[]; failed: FailedWrite[] }> {
      const failed: FailedWrite[] = [];
      const counting = byBatch(taken.filter(({ isCounted }) => !isCounted)).map(async ([of, results]) => {
        try {
          const kept = await room.take(of, results.map(sizeOf));
          for (const [index, one] of results.entries()) {
            one.isCounted = true;
            if (!kept[index]) one.result = failedLine(one.result, noRoomLeft);
          }
        } catch (error) {
          failed.push({ results, error });
        }
      });
      await Promise.all(counting);
      return { counted: taken.filter(({ isCounted }) => isCounted), failed };
    },

    /** What is not given back counts until the batch is over. */
    async giveBack(results: readonly PendingResult[]): Promise<void> {
      const giving = byBatch(results).map(([of, counted]) => room.giveBack(of, counted.map(sizeOf)));
      await Promise.all(giving).catch((error: unknown) => {
        log.warn({ err: error }, 'bytes of results that were not stored count until their batch ends');
      });
    },
  };
}

function byBatch(results: readonly PendingResult[]): [{ account: string; batch: string }, PendingResult[]][] {
  const groups = Map.groupBy(results, ({ result }) => result.batch);
  return [...groups].map(([batch, each]) => [{ account: each[0]?.owner.account ?? '', batch }, each]);
}

function sizeOf({ result }: PendingResult): SizedResult {
  return { bytes: lineBytesOf(result), isFailure: result.failed };
}
