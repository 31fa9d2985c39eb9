import { setTimeout as sleep } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import type { Counter } from 'prom-client';
import type { BatchResult } from '../../../shared/batches/batch.ts';
import { ApiError } from '../../../shared/errors.ts';
import type { Log } from '../../../shared/process/log.ts';
import type { BatchStore } from '../../../shared/store/batches/batch-store.ts';

/**
 * Writes the result of a line for an endpoint, and waits while the store is unavailable. Resolves with the stored result of the line: this one, or an earlier one.
 * Fails with the reason of `signal`; then it is unknown whether the result was written.
 */
export type WriteResult = (result: BatchResult, endpoint: string, signal: AbortSignal) => Promise<BatchResult>;
type Waiting = {
  result: BatchResult;
  endpoint: string;
  signal: AbortSignal;
  resolve: (stored: BatchResult) => void;
  reject: (error: unknown) => void;
};

const resultsAtOnce = 100;
const charactersAtOnce = 8_388_608;

/**
 * Results that come within `gatherMs`, or while others are written, are written together. A durable write takes the store as long for one
 * result as for many, and SQLite blocks the process meanwhile.
 */
export function createWriteResults({
  store,
  metrics,
  log,
  gatherMs = 20,
  pauseMs = 500,
}: {
  store: Pick<BatchStore, 'insertResults'>;
  metrics: { batchLines: Counter<'endpoint' | 'outcome'> };
  log: Log;
  gatherMs?: number;
  pauseMs?: number;
}): WriteResult {
  let waiting: Waiting[] = [];
  let isWriting = false;

  async function writeAll(): Promise<void> {
    isWriting = true;
    while (waiting.length > 0) {
      if (gatherMs > 0) await sleep(gatherMs);
      const taken = take();
      if (taken.length === 0) continue;
      try {
        const stored = await store.insertResults(taken.map(({ result }) => result));
        for (const [index, { resolve, result, endpoint }] of taken.entries()) {
          const kept = stored[index] ?? result;
          const outcome = result.error?.code ?? 'completed';
          if (isDeepStrictEqual(kept, result)) metrics.batchLines.inc({ endpoint, outcome });
          resolve(kept);
        }
      } catch (error) {
        await putBack(taken, error);
      }
    }
    isWriting = false;
  }

  /** Takes the results for one call, and leaves out those whose writers were aborted. */
  function take(): Waiting[] {
    const taken: Waiting[] = [];
    let characters = 0;
    while (waiting.length > 0 && taken.length < resultsAtOnce && characters < charactersAtOnce) {
      const next = waiting.shift();
      if (next === undefined) break;
      if (next.signal.aborted) next.reject(next.signal.reason);
      else {
        taken.push(next);
        characters += next.result.body?.length ?? 0;
      }
    }
    return taken;
  }

  async function putBack(taken: readonly Waiting[], error: unknown): Promise<void> {
    const isUnavailable = error instanceof ApiError && error.code === 'SERVICE_UNAVAILABLE';
    if (!isUnavailable) {
      for (const { reject } of taken) reject(error);
      return;
    }
    log.warn({ err: error, results: taken.length }, 'results of batches could not be stored; trying again');
    waiting = [...taken, ...waiting];
    await sleep(pauseMs * (0.5 + Math.random()));
  }

  return function writeResult(result, endpoint, signal) {
    const written = Promise.withResolvers<BatchResult>();
    waiting.push({ result, endpoint, signal, resolve: written.resolve, reject: written.reject });
    if (!isWriting) void writeAll();
    return written.promise;
  };
}
