import { compareBytes } from '../documents/lists.ts';
import { pauseBeforeRetry } from '../documents/pause-before-retry.ts';
import { type Addition, byDetail, type DetailBatch, detailId } from '../usage/usage-details.ts';
import type { UsageRecord } from '../usage/usage-record.ts';
import { byMonth, type MonthBatch } from '../usage/usage-sums.ts';
import type { DetailChange, DoubtfulMonth, UsageTables } from '../usage/usage-tables.ts';
import type { MongoCalls } from './mongo-calls.ts';
import { refusedAsDuplicates } from './mongo-indexes.ts';
import {
  detailChangeOf,
  detailMoveOf,
  detailRange,
  detailsOf,
  moveOf,
  readDetailDocument,
  recordsOf,
  sumId,
  sumsOf,
  toRecordDocument,
} from './mongo-usage-documents.ts';

const recordsAtOnce = 500;

type Moves<Batch> = {
  write(batches: readonly Batch[]): Promise<unknown>;
  /** Returns the last entry of each batch's document, by id; only what a failover cannot undo. */
  readLastEntries(batches: readonly Batch[]): Promise<ReadonlyMap<string, string>>;
  idOf(batch: Batch): string;
  signal: AbortSignal;
};

/**
 * Repeats guarded updates until each entry is in its document, or the document is already past it. Returns the batches whose documents were
 * past some of their entries: another process has updated them.
 */
async function moveAll<Batch extends Addition>(
  batches: readonly Batch[],
  { write, readLastEntries, idOf, signal }: Moves<Batch>,
): Promise<Batch[]> {
  const passed: Batch[] = [];
  let waiting = batches.filter(({ unsummed }) => unsummed.length > 0);
  for (let attempt = 1; waiting.length > 0; attempt += 1) {
    signal.throwIfAborted(); // the caller has received a failure: nothing more may change
    const indexes = await refusedAsDuplicates(write(waiting));
    const refused = indexes.flatMap((index) => waiting[index] ?? []);
    if (refused.length === 0) break;
    const lastEntries = await readLastEntries(refused);
    const rests = refused.map((batch) => {
      const lastEntry = lastEntries.get(idOf(batch)) ?? '';
      return { batch, rest: { ...batch, unsummed: after(batch.unsummed, lastEntry) } };
    });
    const isPassed = ({ batch, rest }: (typeof rests)[number]) => rest.unsummed.length < batch.unsummed.length;
    passed.push(...rests.filter(isPassed).map(({ batch }) => batch));
    waiting = rests.map(({ rest }) => rest).filter(({ unsummed }) => unsummed.length > 0);
    if (waiting.length > 0) await pauseBeforeRetry(attempt, signal);
  }
  return passed;
}

/** Adds records to details, each in its own guarded update. Returns those that were past some of them. */
function createMoveDetails(calls: MongoCalls) {
  const details = detailsOf(calls.database);
  return (batches: readonly DetailBatch[], signal: AbortSignal): Promise<DetailBatch[]> =>
    moveAll<DetailBatch>(batches, {
      write: (waiting) => details.bulkWrite(waiting.map(detailMoveOf), { ordered: false }),
      async readLastEntries(refused) {
        const accounts = [...new Set(refused.map(({ account }) => account))];
        const filter = { _id: { $in: refused.map(detailId) }, account: { $in: accounts } };
        const found = await details.find(filter, { projection: { lastEntry: 1 }, ...calls.durable() }).toArray();
        return new Map(found.map(({ _id, lastEntry }) => [_id, lastEntry]));
      },
      idOf: detailId,
      signal,
    });
}

/**
 * Inserts records first, acknowledged by a majority, then updates details, then sums, each in its own guarded update
 * (contract.md#r5-sums, contract.md#r11-details).
 */
export function createTakeUsage(calls: MongoCalls): UsageTables['take'] {
  const records = recordsOf(calls.database);
  const sums = sumsOf(calls.database);
  const moveDetails = createMoveDetails(calls);

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

  function moveSums(batches: readonly MonthBatch[], signal: AbortSignal): Promise<MonthBatch[]> {
    return moveAll<MonthBatch>(batches, {
      write: (waiting) => sums.bulkWrite(waiting.map(moveOf), { ordered: false }),
      async readLastEntries(refused) {
        const filter = { _id: { $in: refused.map(sumId) } };
        const found = await sums.find(filter, { projection: { lastEntry: 1 }, ...calls.durable() }).toArray();
        return new Map(found.map(({ _id, lastEntry }) => [_id, lastEntry]));
      },
      idOf: sumId,
      signal,
    });
  }

  async function takeBatch(batch: readonly UsageRecord[]): Promise<DoubtfulMonth[]> {
    const storedEntries = await calls.call(() => insert(batch));
    const batches = byMonth(batch, storedEntries);
    const details = batches.flatMap((month) => byDetail(month, month.unsummed));
    const passedDetails = new Set((await calls.call((signal) => moveDetails(details, signal))).map(sumId));
    const passedSums = new Set((await calls.call((signal) => moveSums(batches, signal))).map(sumId));
    const isDoubtful = (month: MonthBatch) =>
      month.disputed || passedSums.has(sumId(month)) || passedDetails.has(sumId(month));
    return batches.filter(isDoubtful).map(({ account, month, lastEntry }) => ({ account, month, upTo: lastEntry }));
  }

  return async function take(all) {
    const doubtful: DoubtfulMonth[] = [];
    for (let from = 0; from < all.length; from += recordsAtOnce)
      doubtful.push(...(await takeBatch(all.slice(from, from + recordsAtOnce))));
    return doubtful;
  };
}

function after<Item extends { entry: string }>(items: readonly Item[], lastEntry: string): Item[] {
  return items.filter(({ entry }) => entry > lastEntry);
}

const changesAtOnce = 500;

type DetailTables = Pick<UsageTables, 'readDetails' | 'readMonthDetails' | 'compareAccounts' | 'replaceDetails'>;

export function createMongoDetails({ call, durable, database }: MongoCalls): DetailTables {
  const details = detailsOf(database);

  async function write(changes: readonly DetailChange[]): Promise<boolean> {
    let matched = 0;
    const refused = await refusedAsDuplicates(
      details.bulkWrite(changes.map(detailChangeOf), { ordered: false }).then((result) => {
        matched = result.matchedCount + result.insertedCount;
      }),
    );
    return refused.length === 0 && matched === changes.length;
  }

  return {
    readDetails: (month, { limit, keyId, ...page }) =>
      call(async () => {
        const range = detailRange(month, 'fromDay' in page ? page.fromDay : '');
        const _id = 'after' in page ? { $gt: detailId(page.after), $lt: range.$lt } : range;
        const options = { sort: { _id: 1 }, limit, ...durable() } as const;
        const found = await details
          .find({ account: month.account, _id, ...(keyId !== undefined && { keyId }) }, options)
          .toArray();
        return found.map(readDetailDocument);
      }),

    readMonthDetails: (month, { after, limit }) =>
      call(async () => {
        const filter = { month, ...(after !== undefined && { _id: { $gt: detailId(after) } }) };
        const options = { sort: { _id: 1 }, limit, ...durable() } as const;
        const found = await details.find(filter, options).toArray();
        return found.map((document) => readDetailDocument(document).detail);
      }),

    // Ids of details are JSON and begin with the account.
    compareAccounts: (one, other) => compareBytes(JSON.stringify(one), JSON.stringify(other)),

    async replaceDetails(_month, changes) {
      for (let from = 0; from < changes.length; from += changesAtOnce) {
        const piece = changes.slice(from, from + changesAtOnce);
        if (!(await call(() => write(piece)))) return false;
      }
      return true;
    },
  };
}
