import type { Collection } from 'mongodb';
import { z } from 'zod';
import type { BatchResult } from '../../../batches/batch.ts';
import { pauseBeforeRetry } from '../../adapters/pause-before-retry.ts';
import { readPages } from '../../adapters/read-pages.ts';
import { inPieces, pageCharactersMax } from '../../batches/batch-lines.ts';
import type { LineRecords } from '../../batches/batch-store.ts';
import type { MongoCalls } from '../database/mongo-calls.ts';
import { refusedAsDuplicates } from '../database/mongo-duplicates.ts';
import {
  lineId,
  lineOf,
  linesAfter,
  type ResultDocument,
  readResultDocument,
  resultsOf,
  toResultDocument,
} from './mongo-batch-documents.ts';

/** The size of one call's piece, small enough to finish well before its deadline. */
const pieceSize = { count: 100, characters: 4_194_304 };
const linesAtOnce = 5_000;

const countsSchema = z.array(z.object({ _id: z.boolean(), count: z.int() }));

type ResultRecords = Pick<LineRecords, 'insertResults' | 'listResults' | 'countResults' | 'listEndedLines'> & {
  /** Reads the result of one line, within a call. */
  readResult(batch: string, line: number): Promise<BatchResult | undefined>;
};

export function createMongoResults(calls: MongoCalls): ResultRecords {
  const { call, durable, database } = calls;
  const results = resultsOf(database);

  return {
    insertResults: createInsertResults(calls, results),

    async readResult(batch, line) {
      const found = await results.findOne({ _id: lineId(batch, line) }, durable());
      return found === null ? undefined : readResultDocument(found);
    },

    listResults: (batch, { after, limit }) =>
      call(async () => {
        const found: BatchResult[] = [];
        let characters = 0;
        const options = { sort: { _id: 1 }, limit, ...durable() } as const;
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
        const counts = countsSchema.parse(await results.aggregate(pipeline, durable()).toArray());
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
            const options = { projection: { _id: 1 }, sort: { _id: 1 }, limit, ...durable() } as const;
            return (await results.find(linesAfter(batch, after), options).toArray()).map(({ _id }) => lineOf(_id));
          }),
      }),
  };
}

function createInsertResults(
  { call, durable }: MongoCalls,
  results: Collection<ResultDocument>,
): LineRecords['insertResults'] {
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
      const found = await results.find({ _id: { $in: [...ids] } }, durable()).toArray();
      if (found.length === ids.size) return new Map(found.map((each) => [each._id, readResultDocument(each)]));
      await pauseBeforeRetry(attempt, signal);
    }
  }

  return async function insertResults(given) {
    const stored: BatchResult[] = [];
    for (const piece of inPieces(given, pieceSize)) {
      stored.push(...(await call((signal) => insertPiece(piece, signal))));
    }
    return stored;
  };
}
