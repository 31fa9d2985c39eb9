import { LRUCache } from 'lru-cache';
import { z } from 'zod';
import { pauseBeforeRetry } from '../documents.ts';
import { compareBytes } from '../lists.ts';
import {
  compare,
  detailCountNames,
  detailCountsSchema,
  type MonthBatch,
  type SummedRecord,
} from '../usage/usage-record.ts';
import {
  type Addition,
  byDetail,
  type DetailBatch,
  type DetailChange,
  detailId,
  hourGroups,
  hourPlacesMax,
  placeOf,
  restOf,
  startOf,
  type UsageTables,
  type UsageUnit,
} from '../usage/usage-tables.ts';
import type { MongoCalls } from './mongo-calls.ts';
import { refusedAsDuplicates } from './mongo-indexes.ts';
import {
  detailChangeOf,
  detailMoveOf,
  detailRange,
  detailRangeOf,
  detailsOf,
  readDetailDocument,
  readRefusalsDocument,
  refusalMoveOf,
  refusalsOf,
} from './mongo-usage-documents.ts';

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
export async function moveAll<Batch extends Addition>(
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

/** Adds records to details of a unit, each in its own guarded update. Returns those that were past some of them. */
export function createMoveDetails(calls: MongoCalls, unit: UsageUnit) {
  const details = detailsOf(calls.database, unit);
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

/** Most records are of places that this process has just written. */
const knownPlacesMax = 20_000;

/** Groups the records of months by the details of their hours: in their own places, as far as their hour has room for these. */
export function createGroupHours({ database, durable }: MongoCalls) {
  const hours = detailsOf(database, 'hour');
  const known = new LRUCache<string, true>({ max: knownPlacesMax });

  async function noteStored(batches: readonly DetailBatch[]): Promise<void> {
    const accounts = [...new Set(batches.map(({ account }) => account))];
    const filter = { _id: { $in: batches.map(detailId) }, account: { $in: accounts } };
    const found = await hours.find(filter, { projection: { _id: 1 }, ...durable() }).toArray();
    for (const { _id } of found) known.set(_id, true);
  }

  async function roomOf(batch: DetailBatch): Promise<number> {
    const filter = { account: batch.account, _id: detailRangeOf(batch) };
    return hourPlacesMax - (await hours.countDocuments(filter, { limit: hourPlacesMax }));
  }

  return async function groupHours(months: readonly MonthBatch[], hoursFrom: string): Promise<DetailBatch[]> {
    const batches = months.flatMap((month) =>
      byDetail(
        month.unsummed.filter((record) => startOf(record, 'hour') >= hoursFrom),
        (record) => placeOf(month, record, 'hour'),
      ),
    );
    const isNew = (batch: DetailBatch) => !known.has(detailId(batch));
    if (batches.some(isNew)) await noteStored(batches.filter(isNew));
    const [fitting, left]: [DetailBatch[], DetailBatch[]] = [batches.filter((batch) => !isNew(batch)), []];
    const newByHour = Map.groupBy(batches.filter(isNew), ({ account, start }) => JSON.stringify([account, start]));
    for (const ofHour of newByHour.values()) {
      const room = ofHour[0] === undefined ? 0 : await roomOf(ofHour[0]);
      fitting.push(...ofHour.slice(0, Math.max(0, room)));
      left.push(...ofHour.slice(Math.max(0, room)));
    }
    return [...fitting, ...restsOf(left)];
  };
}

function restsOf(batches: readonly DetailBatch[]): DetailBatch[] {
  const records = new Map<SummedRecord, DetailBatch>(
    batches.flatMap((batch) => batch.unsummed.map((record) => [record, batch] as const)),
  );
  const inOrder = [...records].sort(([one], [other]) => compare(one.entry, other.entry));
  return byDetail(
    inOrder.map(([record]) => record),
    (record) => restOf(placeOf(records.get(record) ?? { account: '', month: '' }, record, 'hour')),
  );
}

function after<Item extends { entry: string }>(items: readonly Item[], lastEntry: string): Item[] {
  return items.filter(({ entry }) => entry > lastEntry);
}

const changesAtOnce = 500;

type DetailTables = Pick<UsageTables, 'readDetails' | 'readMonthDetails' | 'compareAccounts' | 'replaceDetails'>;

export function createMongoDetails({ call, durable, database }: MongoCalls): DetailTables {
  const of = { day: detailsOf(database, 'day'), hour: detailsOf(database, 'hour') };

  async function write(unit: UsageUnit, changes: readonly DetailChange[]): Promise<boolean> {
    if (changes.length === 0) return true;
    let matched = 0;
    const refused = await refusedAsDuplicates(
      of[unit].bulkWrite(changes.map(detailChangeOf), { ordered: false }).then((result) => {
        matched = result.matchedCount + result.insertedCount;
      }),
    );
    return refused.length === 0 && matched === changes.length;
  }

  return {
    readDetails: (month, { unit, limit, keyId, ...page }) =>
      call(async () => {
        const range = detailRange(month, 'from' in page ? page.from : '');
        const _id = 'after' in page ? { $gt: detailId(page.after), $lt: range.$lt } : range;
        const options = { sort: { _id: 1 }, limit, ...durable() } as const;
        const filter = { account: month.account, _id, ...(keyId !== undefined && { keyId }) };
        const found = await of[unit].find(filter, options).toArray();
        return found.map((document) => readDetailDocument(document, unit));
      }),

    readMonthDetails: (month, { after, limit }) =>
      call(async () => {
        const filter = { month, ...(after !== undefined && { _id: { $gt: detailId(after) } }) };
        const options = { sort: { _id: 1 }, limit, ...durable() } as const;
        const found = await of.day.find(filter, options).toArray();
        return found.map((document) => readDetailDocument(document, 'day').detail);
      }),

    // Ids of details are JSON and begin with the account.
    compareAccounts: (one, other) => compareBytes(JSON.stringify(one), JSON.stringify(other)),

    async replaceDetails(_month, changes) {
      for (let from = 0; from < changes.length; from += changesAtOnce) {
        const piece = changes.slice(from, from + changesAtOnce);
        const ofUnit = (unit: UsageUnit) => piece.filter(({ detail }) => detail.unit === unit);
        if (!(await call(() => write('day', ofUnit('day'))))) return false;
        if (!(await call(() => write('hour', ofUnit('hour'))))) return false;
      }
      return true;
    },
  };
}

const text = z.string();
const hourSum = z.object({ _id: z.object({ account: text, model: text, code: text }), ...detailCountsSchema.shape });
const refusalSum = z.object({ _id: z.object({ account: text, code: text }), requests: z.int() });

/** Sums of hours by the database, and refusals. */
export function createMongoHours({
  call,
  durable,
  database,
}: MongoCalls): Pick<UsageTables, 'takeRefusals' | 'sumHour' | 'readRefusals' | 'sumRefusals'> {
  const [hours, refusals] = [detailsOf(database, 'hour'), refusalsOf(database)];

  return {
    takeRefusals: (all) =>
      call(async (signal) => {
        // In the order of their entries: a later one of a place would hide an earlier one.
        for (const entries of Map.groupBy(all, ({ entry }) => entry).values()) {
          signal.throwIfAborted();
          await refusedAsDuplicates(refusals.bulkWrite(entries.map(refusalMoveOf), { ordered: false }));
        }
      }),

    sumHour: (hour, groups) =>
      call(async () => {
        const _id = Object.fromEntries(hourGroups.map((name) => [name, groups.includes(name) ? `$${name}` : '']));
        const sums = Object.fromEntries(detailCountNames.map((name) => [name, { $sum: `$counts.${name}` }]));
        const found = await hours
          .aggregate([{ $match: { start: hour } }, { $group: { _id, ...sums } }], durable())
          .toArray();
        return found.map((document) => {
          const { _id: group, ...counts } = hourSum.parse(document);
          return { ...group, counts };
        });
      }),

    readRefusals: (account, { start, end }) =>
      call(async () => {
        const filter = { account, start: { $gte: start, $lte: end } };
        const found = await refusals.find(filter, { sort: { start: 1, _id: 1 }, ...durable() }).toArray();
        return found.map(readRefusalsDocument);
      }),

    sumRefusals: (hour, groups) =>
      call(async () => {
        const _id = { account: groups.includes('account') ? '$account' : '', code: '$code' };
        const group = { $group: { _id, requests: { $sum: '$requests' } } };
        const found = await refusals.aggregate([{ $match: { start: hour } }, group], durable()).toArray();
        return found.map((document) => {
          const { _id: of, requests } = refusalSum.parse(document);
          return { ...of, requests };
        });
      }),
  };
}
