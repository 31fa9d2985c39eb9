import { pauseBeforeRetry } from '../adapters/pause-before-retry.ts';
import type { UsageRecord } from '../usage/usage-record.ts';
import { byMonth, type MonthBatch } from '../usage/usage-sums.ts';
import type { UsageTables } from '../usage/usage-tables.ts';
import type { MongoCalls } from './database/mongo-calls.ts';
import { refusedAsDuplicates } from './database/mongo-duplicates.ts';
import { moveOf, recordsOf, sumId, sumsOf, toRecordDocument } from './mongo-usage-documents.ts';

const recordsAtOnce = 500;

type SplitBatches = { passed: MonthBatch[]; left: MonthBatch[] };

/** Inserts records first, acknowledged by a majority, and then updates their sums, each in its own guarded update (contract.md#r5-sums). */
export function createTakeUsage(calls: MongoCalls): UsageTables['take'] {
  const records = recordsOf(calls.database);
  const sums = sumsOf(calls.database);

  /** Inserts new records, and returns the entry under which each request's record is stored. */
  async function insert(batch: readonly UsageRecord[]): Promise<Map<string, string>> {
    const documents = batch.map(toRecordDocument);
    const refused = await refusedAsDuplicates(records.insertMany(documents, { ordered: false }));
    const storedEntries = new Map(documents.map(({ _id, entry }) => [_id, entry]));
    if (refused.length === 0) return storedEntries;
    const ids = new Set(refused.map((index) => documents[index]?._id ?? ''));
    const projection = { entry: 1 };
    const found = await records.find({ _id: { $in: [...ids] } }, { projection, ...calls.durable() }).toArray();
    if (found.length < ids.size) throw new Error('an existing record is not yet safe from a failover');
    for (const { _id, entry } of found) storedEntries.set(_id, entry);
    return storedEntries;
  }

  /** Repeats until each entry is in its sum, or the sum is already past it. */
  async function move(batches: readonly MonthBatch[], signal: AbortSignal): Promise<MonthBatch[]> {
    const doubtful = batches.filter(({ disputed }) => disputed);
    let waiting = batches.filter(({ unsummed }) => unsummed.length > 0);
    for (let attempt = 1; waiting.length > 0; attempt += 1) {
      signal.throwIfAborted(); // the caller has received a failure: nothing more may change
      const refused = await refusedAsDuplicates(sums.bulkWrite(waiting.map(moveOf), { ordered: false }));
      const { passed, left } = await look(refused.flatMap((index) => waiting[index] ?? []));
      doubtful.push(...passed);
      waiting = left;
      if (waiting.length > 0) await pauseBeforeRetry(attempt, signal);
    }
    return doubtful;
  }

  /**
   * Returns the batches whose sums are past some of their entries, and what remains of each batch: another process has updated those sums,
   * perhaps in a way that a failover can undo.
   */
  async function look(batches: readonly MonthBatch[]): Promise<SplitBatches> {
    if (batches.length === 0) return { passed: [], left: [] };
    const filter = { _id: { $in: batches.map(sumId) } };
    const found = await sums.find(filter, { projection: { lastEntry: 1 }, ...calls.durable() }).toArray();
    const lastEntries = new Map(found.map(({ _id, lastEntry }) => [_id, lastEntry]));
    return splitBatches(batches, lastEntries);
  }

  return async function take(all) {
    const doubtful: MonthBatch[] = [];
    for (let from = 0; from < all.length; from += recordsAtOnce) {
      const batch = all.slice(from, from + recordsAtOnce);
      const storedEntries = await calls.call(() => insert(batch));
      doubtful.push(...(await calls.call((signal) => move(byMonth(batch, storedEntries), signal))));
    }
    return doubtful.map(({ account, month, lastEntry }) => ({ account, month, upTo: lastEntry }));
  };
}

function splitBatches(batches: readonly MonthBatch[], lastEntries: ReadonlyMap<string, string>): SplitBatches {
  const rests = batches.map((batch) => {
    const lastEntry = lastEntries.get(sumId(batch)) ?? '';
    return { batch, unsummed: batch.unsummed.filter(({ entry }) => entry > lastEntry) };
  });
  return {
    passed: rests.filter(({ batch, unsummed }) => unsummed.length < batch.unsummed.length).map(({ batch }) => batch),
    left: rests.filter(({ unsummed }) => unsummed.length > 0).map(({ batch, unsummed }) => ({ ...batch, unsummed })),
  };
}
