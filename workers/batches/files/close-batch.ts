import { setTimeout as sleep } from 'node:timers/promises';
import type { Batch, BatchResult } from '../../../shared/batches/batch.ts';
import type { Release } from '../../../shared/limits/release.ts';
import type { PlanFile } from '../../../shared/process/plan-file.ts';
import type { Store } from '../../../shared/store/store.ts';
import { requestIdOf } from '../lines/ids.ts';
import type { LineQueue, QueuedLine } from '../lines/line-queue.ts';
import { failedLine, unfinished } from '../lines/line-results.ts';
import type { WriteResult } from '../lines/write-results.ts';
import { parseLine } from './parse-line.ts';
import { FileGone, readLines } from './read-lines.ts';

/** A line that has no result, and the job it may have. */
type OpenLine = Pick<BatchResult, 'batch' | 'line' | 'customId' | 'requestId'> & QueuedLine;

const linesAtOnce = 200;
const removedAtOnce = 500;
/** Lines in hand end by themselves, or are stopped by their workers, within this time of their batch's end. */
const endsWithinMs = 10_000;
const lookEveryMs = 250;

/**
 * Gives every line of a batch that was cancelled or has expired a result, those in hand a few seconds to come to their own. From
 * then on no line can end in any other way, whoever still runs it. May be begun anew. Fails as the store does, and with the
 * reason of `signal`.
 */
export function createCloseBatch({
  store,
  queue,
  release,
  heldBy,
  writeResult,
  planFile,
}: {
  store: Pick<Store, 'batches' | 'files'>;
  queue: Pick<LineQueue, 'remaining' | 'remove'>;
  release: Release;
  /** The requests of an account's lines that hold leases. */
  heldBy: (account: string) => Promise<ReadonlySet<string>>;
  writeResult: WriteResult;
  planFile: Pick<PlanFile, 'models'>;
}) {
  return async function closeBatch(batch: Batch, { now, signal }: { now: number; signal: AbortSignal }): Promise<void> {
    if (batch.inProgressAt === undefined || batch.ending === undefined || batch.ending === 'completed') return;
    const error = unfinished[batch.ending];
    const since = (batch.cancellingAt ?? batch.finalizingAt ?? batch.createdAt).getTime();
    const endsAt = performance.now() + Math.max(0, since + endsWithinMs - now);
    const running: OpenLine[] = [];
    for await (const lines of openLines(batch)) {
      signal.throwIfAborted();
      const left = await takeOut(batch, lines);
      running.push(...lines.filter((line) => left.has(line.requestId)));
      await end(
        lines.filter((line) => !left.has(line.requestId)),
        error,
        signal,
      );
    }
    while (running.length > 0 && performance.now() < endsAt && (await queue.remaining(running)).size > 0) {
      await sleep(lookEveryMs, undefined, { signal });
    }
    await end(running, error, signal);
    await requireOpen(batch);
  };

  /** Who was away for long may have closed anew what another has closed and cleared up: nobody would remove that. */
  async function requireOpen({ id }: Batch): Promise<void> {
    const found = await store.batches.findBatch(id);
    if (found?.open === true) return;
    while (!(await store.batches.removeResults(id, removedAtOnce)));
    throw new Error('the batch was closed and cleared up by another worker meanwhile');
  }

  /** Those that no worker has come out of their queue, and what they may hold is given back; the others are returned. */
  async function takeOut({ account }: Batch, lines: readonly OpenLine[]): Promise<Set<string>> {
    const there = await queue.remaining(lines);
    for (const line of lines.filter(({ requestId }) => there.has(requestId))) {
      if (await queue.remove(line)) there.delete(line.requestId);
    }
    const out = lines.filter(({ requestId }) => !there.has(requestId));
    const held = await heldBy(account);
    const holding = out.filter(({ requestId }) => held.has(requestId));
    await Promise.all(holding.map(({ requestId }) => release({ account, requestId, lane: 'batch', run: 'any' })));
    return there;
  }

  /** Of each the first result stands: one that has come to its own end meanwhile keeps that. */
  async function end(
    lines: readonly OpenLine[],
    error: { code: string; message: string },
    signal: AbortSignal,
  ): Promise<void> {
    const results = lines.map((line) => failedLine(line, error));
    await Promise.all(results.map((result) => writeResult(result, signal)));
  }

  async function* openLines(batch: Batch): AsyncGenerator<OpenLine[]> {
    const ended = new Set(await store.batches.listEndedLines(batch.id, batch.position.line));
    const numbers = new Map((await store.batches.listRetries(batch.id)).map(({ line, number }) => [line, number]));
    let lines: OpenLine[] = [];
    try {
      for await (const line of readLines(store.files, batch.inputFile, batch.position)) {
        if (ended.has(line.number)) continue;
        // Only its name and its model are asked for, so whatever it asks for is no fault now.
        const read = parseLine(line, { models: planFile.models, fields: 'any field' });
        const parsed = 'parsed' in read ? read.parsed : undefined;
        lines.push({
          batch: batch.id,
          line: line.number,
          customId: parsed?.customId ?? ('customId' in read ? read.customId : ''),
          requestId: requestIdOf(batch.id, line.number, numbers.get(line.number) ?? 1),
          model: parsed?.call.model,
        });
        if (lines.length < linesAtOnce) continue;
        yield lines;
        lines = [];
      }
    } catch (error) {
      // Without its file nobody knows what its lines were called.
      if (!(error instanceof FileGone)) throw error;
    }
    yield lines;
  }
}
