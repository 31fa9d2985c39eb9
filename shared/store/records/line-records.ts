import { isDeepStrictEqual } from 'node:util';
import { z } from 'zod';
import {
  type BatchResult,
  type BatchRetry,
  type BatchState,
  batchResultSchema,
  batchRetrySchema,
} from '../../batches/batch.ts';
import type { LineOutcome } from '../../batches/batch-progress.ts';
import type { Collection, Decision, OpenDocuments } from '../documents.ts';
import type { BatchRecords } from './batch-records.ts';

/**
 * A line that is about to run. `result` is set if it has ended. `number` is that of its latest request. `retry` is the record of that
 * request, unless it is the first. `state` and `open` are its batch's.
 */
export type BatchLine = {
  state: BatchState;
  open: boolean;
  number: number;
  retry: BatchRetry | undefined;
  result: BatchResult | undefined;
};

const lineDigits = 8;

/** An id that sorts by the line within its batch. */
function lineId({ batch, line }: { batch: string; line: number }): string {
  return `${batch}-${String(line).padStart(lineDigits, '0')}`;
}

function lineOf({ id }: { id: string }): number {
  return Number(id.slice(-lineDigits));
}

/** The range of the ids of all lines of a batch after this one. A colon sorts after all digits. */
function linesAfter(batch: string, line: number) {
  return { after: { id: lineId({ batch, line }) }, before: `${batch}-:` };
}

const resultDocument = batchResultSchema.extend({ id: z.string() });
const retryDocument = batchRetrySchema.extend({ id: z.string() });

const resultsOf = {
  name: 'batch_results',
  schema: resultDocument,
  id: 'id',
  text: 'body',
  indexes: { byOutcome: { fields: ['batch', 'failed'] } },
} as const satisfies Collection;

const retriesOf = { name: 'batch_retries', schema: retryDocument, id: 'id', indexes: {} } as const satisfies Collection;

export const lineCollections = [resultsOf, retriesOf];

const outcomeFields = [
  ...(['line', 'customId', 'model', 'failed', 'status', 'error'] as const),
  ...(['promptTokens', 'cachedTokens', 'completionTokens'] as const),
];

/** A list of results ends with the one that brings the length of all bodies to this many characters. */
const bodyCharactersMax = 8_388_608;

/** Lines are numbered from 1. */
export function createLineRecords(open: OpenDocuments, { findBatch }: Pick<BatchRecords, 'findBatch'>) {
  const [results, retries] = [open(resultsOf), open(retriesOf)];
  return {
    /** Writes results, each once. Returns the stored results of these lines, in the same order: the given one, or an earlier one. */
    async insertResults(inserted: readonly BatchResult[]): Promise<BatchResult[]> {
      const documents = inserted.map((result) => ({ ...batchResultSchema.parse(result), id: lineId(result) }));
      const refused = await results.insert(documents);
      const earlier = refused.length === 0 ? undefined : await results.findAll(refused, { isCertain: true });
      return documents.map((document) => withoutId(earlier?.get(document.id) ?? document));
    },

    /** Returns undefined if the batch does not exist. */
    async findLine(batch: string, line: number): Promise<BatchLine | undefined> {
      const id = lineId({ batch, line });
      const [result, retry] = await Promise.all([results.find(id), retries.find(id)]);
      // The batch last: results are removed only when it is over, so a line without a result in a running batch has not ended.
      const found = await findBatch(batch);
      if (found === undefined) return undefined;
      const { state, open } = found;
      const known = { retry: retry && withoutId(retry), result: result && withoutId(result) };
      return { state, open, number: retry?.number ?? 1, ...known };
    },

    /** Lists results in order of their lines. Returns fewer than `limit` also if their bodies exceed 8 MiB, and none only at the end. */
    async listResults(batch: string, { after, limit }: { after: number; limit: number }): Promise<BatchResult[]> {
      const page = { ...linesAfter(batch, after), limit, charactersMax: bodyCharactersMax };
      return (await results.list('id', page)).map(withoutId);
    },

    /** Finds what the results of these lines say, without their bodies, in no order. */
    findOutcomes: (batch: string, lines: readonly number[]): Promise<LineOutcome[]> =>
      results.listFields('id', outcomeFields, { is: [lines.map((line) => lineId({ batch, line }))] }),

    /** Lists the same of all lines after this one, in order of their lines. */
    listOutcomes: (batch: string, { after, limit }: { after: number; limit: number }): Promise<LineOutcome[]> =>
      results.listFields('id', outcomeFields, { ...linesAfter(batch, after), limit }),

    async countResults(batch: string): Promise<{ completed: number; failed: number }> {
      const tallies = await results.tally('byOutcome', { is: [batch], by: 'failed' });
      const countOf = (failed: boolean) => tallies.find(({ value }) => Boolean(value) === failed)?.count ?? 0;
      return { completed: countOf(false), failed: countOf(true) };
    },

    /** Lists the numbers of all lines from this one on that have a result, in order. */
    async listEndedLines(batch: string, from: number): Promise<number[]> {
      return (await results.listFields('id', ['id'], linesAfter(batch, from - 1))).map(lineOf);
    },

    /**
     * Records the next request of a line. `retry.number` must be one more than the recorded number (1 if none is recorded); otherwise
     * nothing changes. Then it returns false, unless the same request is already recorded.
     */
    recordRetry: (retry: BatchRetry): Promise<boolean> =>
      retries.change(lineId(retry), nextRetry({ ...batchRetrySchema.parse(retry), id: lineId(retry) })),

    /** Lists retries in order of their lines. */
    async listRetries(batch: string): Promise<BatchRetry[]> {
      return (await retries.list('id', linesAfter(batch, 0))).map(withoutId);
    },

    /** Removes about `limit` results and retries at most; returns false while there may be more. */
    async removeResults(batch: string, limit: number): Promise<boolean> {
      const lines = { from: lineId({ batch, line: 0 }), before: linesAfter(batch, 0).before };
      for (let removed = 0; removed < limit; ) {
        const page = { ...lines, limit: limit - removed };
        const piece = (await results.removeSome('id', page)) || (await retries.removeSome('id', page));
        if (piece === 0) return true;
        removed += piece;
      }
      return false;
    },
  };
}

export type LineRecords = ReturnType<typeof createLineRecords>;

function withoutId<Document extends { id: string }>({ id: _, ...fields }: Document): Omit<Document, 'id'> {
  return fields;
}

type RetryDocument = z.infer<typeof retryDocument>;

/** Decides whether this is the line's next request (`number` is one more than that of the latest), or is already recorded. */
function nextRetry(retry: RetryDocument) {
  return (stored: RetryDocument | undefined): Decision<RetryDocument, boolean> => {
    const latest = stored?.number ?? 1; // a line's first request is not recorded
    if (retry.number === latest + 1) return { result: true, next: retry };
    return { result: isDeepStrictEqual(stored, retry) };
  };
}
