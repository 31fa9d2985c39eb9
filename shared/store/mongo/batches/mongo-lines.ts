import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import { type BatchResult, type BatchRetry, batchRetrySchema, batchStates } from '../../../batches/batch.ts';
import { readPages } from '../../adapters/read-pages.ts';
import { inPieces, nextRetry, pageCharactersMax } from '../../batches/batch-lines.ts';
import type { LineRecords } from '../../batches/batch-store.ts';
import type { MongoCalls } from '../database/mongo-calls.ts';
import { changeGuarded } from '../database/mongo-change.ts';
import { refusedAsDuplicates } from '../database/mongo-duplicates.ts';
import {
  batchesOf,
  lineId,
  lineOf,
  linesAfter,
  readResultDocument,
  readRetryDocument,
  resultsOf,
  retriesOf,
  toResultDocument,
  toRetryDocument,
} from './mongo-batch-documents.ts';

/** The size of one call's piece, small enough to finish well before its deadline. */
const pieceSize = { count: 100, characters: 4_194_304 };
const linesAtOnce = 5_000;
const retriesAtOnce = 1_000;
const removedAtOnce = 500;
const pauseMsMax = 50;

const batchSchema = z.object({ state: z.enum(batchStates), open: z.string().optional() });
const countsSchema = z.array(z.object({ _id: z.boolean(), count: z.int() }));

export function createMongoLines({ call, lasting, database }: MongoCalls): LineRecords {
  const batches = batchesOf(database);
  const results = resultsOf(database);
  const retries = retriesOf(database);

  async function insertPiece(piece: readonly BatchResult[], signal: AbortSignal): Promise<BatchResult[]> {
    const documents = piece.map(toResultDocument);
    const refused = await refusedAsDuplicates(results.insertMany(documents, { ordered: false }));
    const ids = new Set(refused.map((index) => documents[index]?._id ?? ''));
    const stored = ids.size === 0 ? new Map<string, BatchResult>() : await readStored(ids, signal);
    return documents.map((document) => stored.get(document._id) ?? readResultDocument(document));
  }

  /** Waits until existing results are safe from a failover: until then, the stored result may still change. */
  async function readStored(ids: ReadonlySet<string>, signal: AbortSignal): Promise<Map<string, BatchResult>> {
    for (let attempt = 1; ; attempt += 1) {
      const found = await results.find({ _id: { $in: [...ids] } }, lasting()).toArray();
      if (found.length === ids.size) return new Map(found.map((each) => [each._id, readResultDocument(each)]));
      await sleep(Math.random() * Math.min(pauseMsMax, 2 ** attempt), undefined, { signal });
    }
  }

  async function readResult(batch: string, line: number): Promise<BatchResult | undefined> {
    const found = await results.findOne({ _id: lineId(batch, line) }, lasting());
    return found === null ? undefined : readResultDocument(found);
  }

  async function readRetry(batch: string, line: number): Promise<BatchRetry | undefined> {
    const found = await retries.findOne({ _id: lineId(batch, line) }, lasting());
    return found === null ? undefined : readRetryDocument(found);
  }

  /** Returns false if the stored retry has changed since the decision. */
  async function writeRetry(next: BatchRetry, decidedOn: BatchRetry | undefined): Promise<boolean> {
    const { _id, ...fields } = toRetryDocument(next);
    if (decidedOn === undefined)
      return (await refusedAsDuplicates(retries.insertMany([{ _id, ...fields }], { ordered: false }))).length === 0;
    return (await retries.updateOne({ _id, number: decidedOn.number }, { $set: fields })).matchedCount === 1;
  }

  async function removePiece(batch: string, limit: number, signal: AbortSignal): Promise<number> {
    for (const collection of [results, retries]) {
      const options = { projection: { _id: 1 }, limit } as const;
      const found = await database
        .collection<{ _id: string }>(collection.collectionName)
        .find(linesAfter(batch, 0), options)
        .toArray();
      if (found.length === 0) continue;
      signal.throwIfAborted();
      await collection.deleteMany({ _id: { $in: found.map(({ _id }) => _id) } });
      return found.length;
    }
    return 0;
  }

  return {
    async insertResults(given) {
      const stored: BatchResult[] = [];
      for (const piece of inPieces(given, pieceSize)) {
        stored.push(...(await call((signal) => insertPiece(piece, signal))));
      }
      return stored;
    },

    /**
     * Reads the state last: results are removed only when their batch is over, so a line without a result in a running batch has not ended.
     */
    findLine: (batch, line) =>
      call(async () => {
        const [result, retry] = await Promise.all([readResult(batch, line), readRetry(batch, line)]);
        const found = await batches.findOne({ _id: batch }, { projection: { state: 1, open: 1 }, ...lasting() });
        if (found === null) return undefined;
        const { state, open } = batchSchema.parse(found);
        return { state, open: open !== undefined, number: retry?.number ?? 1, retry, result };
      }),

    listResults: (batch, { after, limit }) =>
      call(async () => {
        const found: BatchResult[] = [];
        let characters = 0;
        const options = { sort: { _id: 1 }, limit, ...lasting() } as const;
        for await (const document of results.find(linesAfter(batch, after), options)) {
          const result = readResultDocument(document);
          found.push(result);
          characters += result.body?.length ?? 0;
          if (characters >= pageCharactersMax) break;
        }
        return found;
      }),

    countResults: (batch) =>
      call(async () => {
        const pipeline = [{ $match: { batch } }, { $group: { _id: '$failed', count: { $sum: 1 } } }];
        const counts = countsSchema.parse(await results.aggregate(pipeline, lasting()).toArray());
        const countOf = (failed: boolean) => counts.find(({ _id }) => _id === failed)?.count ?? 0;
        return { completed: countOf(false), failed: countOf(true) };
      }),

    listEndedLines: (batch, from) =>
      readPages<number, number>({
        pageMax: linesAtOnce,
        after: from - 1,
        placeOf: (line) => line,
        read: ({ after, limit }) =>
          call(async () => {
            const options = { projection: { _id: 1 }, sort: { _id: 1 }, limit, ...lasting() } as const;
            return (await results.find(linesAfter(batch, after), options).toArray()).map(({ _id }) => lineOf(_id));
          }),
      }),

    async recordRetry(retry) {
      const { batch, line } = retry;
      const decide = nextRetry(batchRetrySchema.parse(retry));
      return call((signal) => changeGuarded({ read: () => readRetry(batch, line), decide, write: writeRetry }, signal));
    },

    listRetries: (batch) =>
      readPages<BatchRetry, number>({
        pageMax: retriesAtOnce,
        after: 0,
        placeOf: ({ line }) => line,
        read: ({ after, limit }) =>
          call(async () => {
            const options = { sort: { _id: 1 }, limit, ...lasting() } as const;
            return (await retries.find(linesAfter(batch, after), options).toArray()).map(readRetryDocument);
          }),
      }),

    async removeResults(batch, limit) {
      for (let removed = 0; removed < limit; ) {
        const most = Math.min(removedAtOnce, limit - removed);
        const piece = await call((signal) => removePiece(batch, most, signal));
        if (piece === 0) return true;
        removed += piece;
      }
      return false;
    },
  };
}
