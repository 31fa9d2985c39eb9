import type { UsageRecord } from './usage-record.ts';
import type { SummedRecord, UsageMonth, UsageSum } from './usage-sums.ts';

/**
 * The usage operations that each store implements (usage-store.ts adds the rest). Each write is atomic for each sum, and is refused if the
 * sum has changed. Each call is short for any input.
 */
export interface UsageTables {
  /**
   * Inserts the records whose id is new, then adds to the sums the records whose entry is after their last entry, in this order, so that a
   * sum never contains a request without a record. Returns the months with an entry that may not be counted correctly. All records must be
   * of one partition; repeat the call if it fails.
   */
  take(records: readonly UsageRecord[]): Promise<DoubtfulMonth[]>;

  readSum(month: UsageMonth): Promise<KeptSum | undefined>;

  /** Reads the records of a month with `after` < `entry` ≤ `upTo`, by entry: the first `limit` of them. */
  readRecords(month: UsageMonth, range: { after: string; upTo: string; limit: number }): Promise<SummedRecord[]>;

  /** Writes this sum if the stored one is still `kept`; returns false if it is not. */
  replaceSum(sum: UsageSum, kept: KeptSum | undefined): Promise<boolean>;

  /** Returns the first account and month after this one that has a sum or a record. */
  nextMonth(after: UsageMonth): Promise<UsageMonth | undefined>;

  findRecord(requestId: string): Promise<UsageRecord | undefined>;

  /** Removes records of the months before `month`, at most `limit`; if there are none, removes sums. Returns how many. */
  removeBefore(month: string, limit: number): Promise<number>;
}

/** `upTo` is the last entry that a repair must take into account. */
export type DoubtfulMonth = UsageMonth & { upTo: string };

/**
 * `repairs` counts the repairs: of two repairs that start at the same `lastEntry`, one may not have read the records that the other has
 * read.
 */
export type KeptSum = { sum: UsageSum; repairs: number };
