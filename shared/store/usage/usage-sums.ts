import { z } from 'zod';
import { type UsageRecord, usageRecordSchema } from './usage-record.ts';

const count = z.int().nonnegative();

export const usageCountsSchema = z.object({
  requests: count,
  failed: count,
  cancelled: count,
  promptTokens: count,
  completionTokens: count,
  chargedTokens: count,
  overageTokens: count,
});

/** `failed` counts the outcomes `failed` and `lost`. `overageTokens` are the charged tokens beyond the allowance, with overage on. */
export type UsageCounts = z.infer<typeof usageCountsSchema>;
export const countNames = Object.keys(usageCountsSchema.shape) as (keyof UsageCounts)[]; // its keys are the keys of the shape

/** The usage of an account for one model, by requests admitted on one day: `YYYY-MM-DD`, UTC. */
export type UsageDay = { day: string; model: string } & UsageCounts;

export type UsageMonth = { account: string; month: string };

/**
 * The usage of an account in a month. It contains every record of that month whose `entry` is at or before `lastEntry`. `days` are sorted
 * by day, then by model; `total` is their sum.
 */
export type UsageSum = UsageMonth & { lastEntry: string; total: UsageCounts; days: readonly UsageDay[] };

/** The fields of a record that count in a sum. */
export const summedRecordSchema = usageRecordSchema.pick({
  requestId: true,
  entry: true,
  model: true,
  admittedAt: true,
  outcome: true,
  promptTokens: true,
  completionTokens: true,
  chargedTokens: true,
  overage: true,
});
export type SummedRecord = z.infer<typeof summedRecordSchema>;

/** Sums records by day and model, also if they arrive in pieces. */
export function createTally(): { add(records: Iterable<SummedRecord>): void; days(): UsageDay[] } {
  const days = new Map<string, UsageDay>();
  return {
    add(records) {
      for (const record of records) {
        const place = { day: record.admittedAt.toISOString().slice(0, 10), model: record.model };
        const key = `${place.day} ${place.model}`;
        days.set(key, { ...place, ...plus(days.get(key) ?? noCounts, countsOf(record)) });
      }
    },
    days: () => inOrder([...days.values()]),
  };
}

export function totalOf(days: readonly UsageDay[]): UsageCounts {
  return days.reduce<UsageCounts>(plus, noCounts);
}

/** Sorts by day, then by model. */
export function inOrder(days: readonly UsageDay[]): UsageDay[] {
  return days.toSorted((one, other) => compare(one.day, other.day) || compare(one.model, other.model));
}

/**
 * One account's month in a batch of records. `unsummed` are the records to sum, in the order of their entries, unless the sum already
 * contains them. `lastEntry` is the last of all its entries. `disputed`: the record of some request is stored under another entry, so this
 * batch does not show whether it was summed.
 */
export type MonthBatch = UsageMonth & { unsummed: UsageRecord[]; lastEntry: string; disputed: boolean };

/** `storedEntries` has the entry under which each request's record is stored. */
export function byMonth(records: readonly UsageRecord[], storedEntries: ReadonlyMap<string, string>): MonthBatch[] {
  const months = new Map<string, MonthBatch>();
  const distinct = new Map(records.map((record) => [`${record.entry} ${record.requestId}`, record]));
  for (const record of [...distinct.values()].sort((one, other) => compare(one.entry, other.entry))) {
    const { requestId, account, month, entry } = record;
    const key = `${month} ${account}`;
    const batch = months.get(key) ?? { account, month, unsummed: [], lastEntry: entry, disputed: false };
    months.set(key, batch);
    batch.lastEntry = entry;
    if (storedEntries.get(requestId) === entry) batch.unsummed.push(record);
    else batch.disputed = true;
  }
  return [...months.values()];
}

function countsOf(record: SummedRecord): UsageCounts {
  const { outcome, promptTokens, completionTokens, chargedTokens, overage } = record;
  return {
    requests: 1,
    failed: outcome === 'failed' || outcome === 'lost' ? 1 : 0,
    cancelled: outcome === 'cancelled' ? 1 : 0,
    promptTokens,
    completionTokens,
    chargedTokens,
    overageTokens: overage ? chargedTokens : 0,
  };
}

/** The counts of an account without usage. */
export const noCounts: UsageCounts = {
  requests: 0,
  failed: 0,
  cancelled: 0,
  promptTokens: 0,
  completionTokens: 0,
  chargedTokens: 0,
  overageTokens: 0,
};

function plus(one: UsageCounts, other: UsageCounts): UsageCounts {
  const sum = { ...noCounts };
  for (const name of countNames) sum[name] = one[name] + other[name];
  return sum;
}

function compare(one: string, other: string): number {
  if (one === other) return 0;
  return one < other ? -1 : 1;
}
