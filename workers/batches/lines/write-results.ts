import { setTimeout as sleep } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import type { Counter } from 'prom-client';
import type { BatchResult } from '../../../shared/batches/batch.ts';
import { ApiError } from '../../../shared/errors.ts';
import type { Log } from '../../../shared/process/log.ts';
import type { BatchStore } from '../../../shared/store/batches/batch-store.ts';

/**
 * Writes a result, and waits for the store while it is away. Resolves with the one that stands for the line: this one, or what
 * was there before. Fails with the reason of `signal`, and then it is not known whether the result was written.
 */
export type WriteResult = (result: BatchResult, signal: AbortSignal) => Promise<BatchResult>;
type Waiting = {
  result: BatchResult;
  signal: AbortSignal;
  resolve: (stored: BatchResult) => void;
  reject: (error: unknown) => void;
};

const resultsAtOnce = 100;
const charactersAtOnce = 8_388_608;

/**
 * Results that come within a moment, or while others are being written, go together: making them last takes a store as long
 * for one as for many, and SQLite holds up its process for that.
 */
export function createWriteResults({
  store,
  metrics,
  log,
  gatherMs = 20,
  pauseMs = 500,
}: {
  store: Pick<BatchStore, 'insertResults'>;
  metrics: { batchLines: Counter<'outcome'> };
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
        for (const [index, { resolve, result }] of taken.entries()) {
          const stands = stored[index] ?? result;
          if (isDeepStrictEqual(stands, result)) metrics.batchLines.inc({ outcome: result.error?.code ?? 'completed' });
          resolve(stands);
        }
      } catch (error) {
        await putBack(taken, error);
      }
    }
    isWriting = false;
  }

  /** As many as go in one call, of those that somebody still waits for. */
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
    const isAway = error instanceof ApiError && error.code === 'SERVICE_UNAVAILABLE';
    if (!isAway) {
      for (const { reject } of taken) reject(error);
      return;
    }
    log.warn({ err: error, results: taken.length }, 'results of batches could not be stored; trying again');
    waiting = [...taken, ...waiting];
    await sleep(pauseMs * (0.5 + Math.random()));
  }

  return function writeResult(result, signal) {
    const written = Promise.withResolvers<BatchResult>();
    waiting.push({ result, signal, resolve: written.resolve, reject: written.reject });
    if (!isWriting) void writeAll();
    return written.promise;
  };
}
