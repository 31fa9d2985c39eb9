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

/**
 * `failed` are those whose outcome is `failed` or `lost`. `overageTokens` are those of the charged ones that were beyond the
 * allowance, with overage on.
 */
export type UsageCounts = z.infer<typeof usageCountsSchema>;
export const countNames = Object.keys(usageCountsSchema.shape) as (keyof UsageCounts)[]; // its keys are those of the shape

/** What an account used of one model, by requests that were admitted on one day: `YYYY-MM-DD`, UTC. */
export type UsageDay = { day: string; model: string } & UsageCounts;

export type UsageMonth = { account: string; month: string };

/**
 * What an account used in a month. It holds every record of that month whose `entry` is at or before `lastEntry`. `days` go by
 * day, then by model; `total` is what they add up to.
 */
export type UsageSum = UsageMonth & { lastEntry: string; total: UsageCounts; days: readonly UsageDay[] };

/** What of a record counts in a sum. */
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

/** Adds records up, day by day and model by model, also where they come in pieces. */
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

/** By day, then by model. */
export function inOrder(days: readonly UsageDay[]): UsageDay[] {
  return days.toSorted((one, other) => compare(one.day, other.day) || compare(one.model, other.model));
}

/**
 * One account's month in a batch of records. `news` are to be summed, in the order of their entries, unless the sum holds them
 * already. `lastEntry` is the last of all its entries. `disputed`: some request's record stands under another entry than
 * here, so that whether it was summed cannot be told from this batch.
 */
export type MonthBatch = UsageMonth & { news: UsageRecord[]; lastEntry: string; disputed: boolean };

/** `storedEntries` says under which entry each request's record stands in the store. */
export function byMonth(records: readonly UsageRecord[], storedEntries: ReadonlyMap<string, string>): MonthBatch[] {
  const months = new Map<string, MonthBatch>();
  const distinct = new Map(records.map((record) => [`${record.entry} ${record.requestId}`, record]));
  for (const record of [...distinct.values()].sort((one, other) => compare(one.entry, other.entry))) {
    const { requestId, account, month, entry } = record;
    const key = `${month} ${account}`;
    const batch = months.get(key) ?? { account, month, news: [], lastEntry: entry, disputed: false };
    months.set(key, batch);
    batch.lastEntry = entry;
    if (storedEntries.get(requestId) === entry) batch.news.push(record);
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

/** Of whoever used nothing. */
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
