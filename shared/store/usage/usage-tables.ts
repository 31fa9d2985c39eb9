import type { SummedRecord } from './usage-counts.ts';
import type { DetailPlace, UsageDay, UsageDetail } from './usage-details.ts';
import type { RecordPage, UsageRecord } from './usage-record.ts';
import type { UsageMonth, UsageSum } from './usage-sums.ts';

/**
 * The usage operations that each store implements (usage-store.ts adds the rest). Each write is atomic for each sum and each detail, and is
 * refused if it has changed. Each call is short for any input.
 */
export interface UsageTables {
  /**
   * Inserts the records whose id is new, then adds to details and sums the records whose entry is after their last entry, in this order, so
   * that a sum never contains a request without a record. All records must be of one partition; repeat the call if it fails.
   */
  take(records: readonly UsageRecord[]): Promise<Taken>;

  readSum(month: UsageMonth): Promise<KeptSum | undefined>;

  /** Reads the records of a month with `after` < `entry` ≤ `upTo`, by entry: the first `limit` of them. */
  readRecords(month: UsageMonth, range: { after: string; upTo: string; limit: number }): Promise<SummedRecord[]>;

  /** Reads a month's details by day: the first `limit` after this place, or from this day. */
  readDetails(month: UsageMonth, page: DetailPage): Promise<KeptDetail[]>;

  /** Reads a month's details of all accounts, by account and then by day: the first `limit` after this one. */
  readMonthDetails(month: string, page: { after: UsageDetail | undefined; limit: number }): Promise<UsageDetail[]>;

  /** The order of accounts in `readMonthDetails`, as a comparison of two. */
  compareAccounts(one: string, other: string): number;

  /** Reads what a release without details stores as the days of a month; undefined if they are not all of its usage. */
  readPreviousDays(month: UsageMonth): Promise<UsageDay[] | undefined>;

  /**
   * Writes this sum if the stored one is still `kept`, and notes that the details contain all of it; returns false if it is not. Details must
   * be right up to the sum's `lastEntry`.
   */
  replaceSum(sum: UsageSum, kept: KeptSum | undefined): Promise<boolean>;

  /** Writes those details that are still as they were kept; returns false if one is not. */
  replaceDetails(month: UsageMonth, changes: readonly DetailChange[]): Promise<boolean>;

  /**
   * Adds records that follow `detailed` to the details, and moves `detailed` up to `upTo`. Returns false if another process may have added
   * some of them: then compare the details with the records.
   */
  addDetails(month: UsageMonth, added: AddedDetails): Promise<boolean>;

  /** Notes that the details are complete up to `detailed.lastEntry`, if the sum has been repaired `detailed.repairs` times. */
  noteDetailed(month: UsageMonth, detailed: Detailed): Promise<void>;

  /** Returns the first account and month after this one that has a sum or a record. */
  nextMonth(after: UsageMonth): Promise<UsageMonth | undefined>;

  /** Reads the sums that follow this one, newest months first, and returns those with incomplete details. `last` is missing at the end. */
  listIncomplete(page: { after: UsageMonth | undefined; limit: number }): Promise<IncompletePage>;

  findRecord(requestId: string): Promise<UsageRecord | undefined>;

  /** Finds the account's latest record with this id of an answer. */
  findByAnswer(account: string, answerId: string): Promise<UsageRecord | undefined>;

  listRecords(account: string, page: RecordPage): Promise<UsageRecord[]>;

  /** Removes a piece of the usage of months before `month`: records, then details, then sums. Returns how many; 0 if there is none. */
  removeBefore(month: string): Promise<number>;
}

/** `doubtful`: months with an entry that may not be counted correctly. `incomplete`: months whose details lag behind their sum. */
export type Taken = { doubtful: DoubtfulMonth[]; incomplete: UsageMonth[] };

/** `upTo` is the last entry that a repair must take into account. */
export type DoubtfulMonth = UsageMonth & { upTo: string };

/**
 * The details of a month contain every record up to `lastEntry`, as it was after so many repairs of the sum. A worker of the previous
 * release moves and repairs sums without it.
 */
export type Detailed = { lastEntry: string; repairs: number };

/**
 * `repairs` counts the repairs: of two repairs that start at the same `lastEntry`, one may not have read the records that the other has
 * read.
 */
export type KeptSum = { sum: UsageSum; repairs: number; detailed: Detailed };

export type KeptDetail = { detail: UsageDetail; repairs: number };

/** `keyId`: only the details of this key. */
export type DetailPage = ({ after: DetailPlace } | { fromDay: string }) & { limit: number; keyId?: string | undefined };
export type DetailChange = { detail: UsageDetail; kept: KeptDetail | undefined };
export type AddedDetails = { records: readonly SummedRecord[]; detailed: Detailed; upTo: string };

export type IncompletePage = { incomplete: UsageMonth[]; last?: UsageMonth };

export function isDetailed({
  sum,
  repairs,
  detailed,
}: Pick<KeptSum, 'repairs' | 'detailed'> & { sum: Pick<UsageSum, 'lastEntry'> }): boolean {
  return detailed.repairs === repairs && detailed.lastEntry >= sum.lastEntry;
}
