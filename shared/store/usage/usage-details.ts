import {
  addRecord,
  compare,
  countNames,
  type DetailCounts,
  noCounts,
  noDetailCounts,
  type SummedRecord,
  type UsageCounts,
  type UsageMonth,
} from './usage-sums.ts';

/** What a detail counts: the requests of an account with one key, for one model and endpoint, admitted on one day (`YYYY-MM-DD`, UTC). */
export type DetailPlace = UsageMonth & { day: string; model: string; keyId: string; endpoint: string };

/** It contains every record of its place whose `entry` is at or before `lastEntry` (contract.md#r11-details). */
export type UsageDetail = DetailPlace & { counts: DetailCounts; lastEntry: string };

/** Records to add, in the order of their entries, unless the stored sum or detail already contains them. */
export type Addition = { unsummed: readonly SummedRecord[] };

/** The records of a batch for one detail. `lastEntry` is the last of their entries. */
export type DetailBatch = DetailPlace & Addition & { lastEntry: string };

/** The usage of an account for one model, by requests admitted on one day: `YYYY-MM-DD`, UTC. */
export type UsageDay = { day: string; model: string } & UsageCounts;

export function dayOf({ admittedAt }: Pick<SummedRecord, 'admittedAt'>): string {
  return admittedAt.toISOString().slice(0, 10);
}

/**
 * The text of a detail's place. Two places have different texts, whatever the names contain. The places of one month follow each other in
 * order of their texts, and within a month those of one day.
 */
export function detailId({ account, month, day, model, keyId, endpoint }: DetailPlace): string {
  return JSON.stringify([account, month, day, model, keyId, endpoint]);
}

/** Groups records of a month by detail. They stay in their order. */
export function byDetail({ account, month }: UsageMonth, records: Iterable<SummedRecord>): DetailBatch[] {
  const batches = new Map<string, DetailPlace & { unsummed: SummedRecord[]; lastEntry: string }>();
  for (const record of records) {
    const { model, keyId, endpoint, entry: lastEntry } = record;
    const place = { account, month, day: dayOf(record), model, keyId, endpoint };
    const id = detailId(place);
    const found = batches.get(id);
    if (found === undefined) batches.set(id, { ...place, unsummed: [record], lastEntry });
    else {
      found.unsummed.push(record);
      found.lastEntry = lastEntry;
    }
  }
  return [...batches.values()];
}

export function countsOf(records: Iterable<SummedRecord>): DetailCounts {
  const counts = { ...noDetailCounts };
  for (const record of records) addRecord(counts, record);
  return counts;
}

/** Sums details by day and model, also if they arrive in pieces. */
export function createDayTally(): {
  add(details: Iterable<Pick<UsageDetail, 'day' | 'model' | 'counts'>>): void;
  days(): UsageDay[];
} {
  const days = new Map<string, UsageDay>();
  return {
    add(details) {
      for (const { day, model, counts } of details) {
        const key = `${day} ${model}`;
        const sum = days.get(key) ?? { day, model, ...noCounts };
        days.set(key, sum);
        for (const name of countNames) sum[name] += counts[name];
      }
    },
    // A repair leaves a detail that should not exist, with counts of 0.
    days: () => inOrder([...days.values()].filter(({ requests }) => requests > 0)),
  };
}

/** Sorts by day, then by model. */
export function inOrder(days: readonly UsageDay[]): UsageDay[] {
  return days.toSorted((one, other) => compare(one.day, other.day) || compare(one.model, other.model));
}
