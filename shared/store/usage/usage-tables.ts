import type { DetailPlace, UsageDetail } from './usage-details.ts';
import type { RecordPage, UsageRecord } from './usage-record.ts';
import type { SummedRecord, UsageMonth, UsageSum } from './usage-sums.ts';

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
