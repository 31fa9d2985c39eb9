import type { UsageCounts } from './usage-counts.ts';
import type { UsageRecord } from './usage-record.ts';

export type UsageMonth = { account: string; month: string };

/** The usage of an account in a month. It contains every record of that month whose `entry` is at or before `lastEntry`. */
export type UsageSum = UsageMonth & { lastEntry: string; total: UsageCounts };

/**
 * One account's month in a batch of records. `lastEntry` is the last of all its entries. `disputed`: the record of some request is stored
 * under another entry, so this batch does not show whether it was summed.
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

export function compare(one: string, other: string): number {
  if (one === other) return 0;
  return one < other ? -1 : 1;
}
