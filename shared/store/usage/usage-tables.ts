import {
  addRecord,
  compare,
  countNames,
  type DetailCounts,
  noCounts,
  noDetailCounts,
  type RecordPage,
  type SummedRecord,
  type UsageCounts,
  type UsageMonth,
  type UsageRecord,
  type UsageSum,
} from './usage-record.ts';

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
function inOrder(days: readonly UsageDay[]): UsageDay[] {
  return days.toSorted((one, other) => compare(one.day, other.day) || compare(one.model, other.model));
}

/**
 * The usage operations that each store implements (usage-store.ts adds the rest). Each write is atomic for each sum and each detail, and is
 * refused if it has changed. Each call is short for any input.
 */
export interface UsageTables {
  /**
   * Inserts the records whose id is new, then adds to details and sums the records whose entry is after their last entry, in this order, so
   * that a sum never contains a request without a record, or that its details do not contain. All records must be of one partition; repeat
   * the call if it fails. Returns the months with an entry that may not be counted correctly.
   */
  take(records: readonly UsageRecord[]): Promise<DoubtfulMonth[]>;

  readSum(month: UsageMonth): Promise<KeptSum | undefined>;

  /** Reads the records of a month with `after` < `entry` ≤ `upTo`, by entry: the first `limit` of them. */
  readRecords(month: UsageMonth, range: { after: string; upTo: string; limit: number }): Promise<SummedRecord[]>;

  /** Reads a month's details by day: the first `limit` after this place, or from this day. */
  readDetails(month: UsageMonth, page: DetailPage): Promise<KeptDetail[]>;

  /** Reads a month's details of all accounts, by account and then by day: the first `limit` after this one. */
  readMonthDetails(month: string, page: { after: UsageDetail | undefined; limit: number }): Promise<UsageDetail[]>;

  /** The order of accounts in `readMonthDetails`, as a comparison of two. */
  compareAccounts(one: string, other: string): number;

  /** Writes this sum if the stored one is still `kept`; returns false if it is not. Details must be right up to the sum's `lastEntry`. */
  replaceSum(sum: UsageSum, kept: KeptSum | undefined): Promise<boolean>;

  /** Writes those details that are still as they were kept; returns false if one is not. */
  replaceDetails(month: UsageMonth, changes: readonly DetailChange[]): Promise<boolean>;

  /** Returns the first account and month after this one that has a sum or a record. */
  nextMonth(after: UsageMonth): Promise<UsageMonth | undefined>;

  findRecord(requestId: string): Promise<UsageRecord | undefined>;

  /** Finds the account's latest record with this id of an answer. */
  findByAnswer(account: string, answerId: string): Promise<UsageRecord | undefined>;

  /** Lists the account's records by admission. Looks at no more than it returns. */
  listRecords(account: string, page: RecordPage): Promise<UsageRecord[]>;

  /**
   * Removes a piece of the usage of the months before `month` (`YYYY-MM`): records, then details, then sums. Returns how many. Until it
   * returns 0 there are more, and the sums of those months do not match their records.
   */
  removeBefore(month: string): Promise<number>;
}

/** `upTo` is the last entry that a repair must take into account. */
export type DoubtfulMonth = UsageMonth & { upTo: string };

/**
 * `repairs` counts the repairs: of two repairs that start at the same `lastEntry`, one may not have read the records that the other has
 * read.
 */
export type KeptSum = { sum: UsageSum; repairs: number };

export type KeptDetail = { detail: UsageDetail; repairs: number };

/** `keyId`: only the details of this key. */
export type DetailPage = ({ after: DetailPlace } | { fromDay: string }) & { limit: number; keyId?: string | undefined };
export type DetailChange = { detail: UsageDetail; kept: KeptDetail | undefined };

const recordsAtOnce = 250;

/** Reads the records of a month up to the entry `upTo`, by entry. No entry is in two pages, unless it fills more than one. */
export async function* recordPages(
  tables: Pick<UsageTables, 'readRecords'>,
  month: UsageMonth,
  upTo: string,
): AsyncGenerator<SummedRecord[]> {
  for (let from = ''; ; ) {
    const page = await tables.readRecords(month, { after: from, upTo, limit: recordsAtOnce });
    const last = page.at(-1)?.entry;
    if (last === undefined) return;
    if (page.length < recordsAtOnce) return yield page;
    // Other records of the last entry may be left for the next page: after Redis was emptied, an entry can occur twice.
    const complete = page.filter(({ entry }) => entry < last);
    yield complete.length > 0 ? complete : page;
    from = complete.at(-1)?.entry ?? last;
  }
}
