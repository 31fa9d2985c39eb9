import type { UsageRecord } from './usage-record.ts';
import type { SummedRecord, UsageMonth, UsageSum } from './usage-sums.ts';

/**
 * What a home of the store does for usage (usage-store.ts makes the rest of it). Each write is atomic for each sum, and
 * refuses where the sum has moved; each call is short, whatever it is given.
 */
export interface UsageTables {
  /**
   * Inserts the records whose id is new, then moves the sums by those whose entry is after what they hold, in this order, so
   * that a sum never holds what has no record. Names the months in which an entry was met that is not known to be counted
   * as it should be. Records of one partition; to be repeated where it fails.
   */
  take(records: readonly UsageRecord[]): Promise<DoubtfulMonth[]>;

  readSum(month: UsageMonth): Promise<KeptSum | undefined>;

  /** The records of a month with `after` < `entry` ≤ `upTo`, by entry: the first `limit` of them. */
  readRecords(month: UsageMonth, range: { after: string; upTo: string; limit: number }): Promise<SummedRecord[]>;

  /** Writes this sum if the one that is kept is still `kept`; false where it is not. */
  replaceSum(sum: UsageSum, kept: KeptSum | undefined): Promise<boolean>;

  /** The first account and month after this one that has a sum or a record. */
  nextMonth(after: UsageMonth): Promise<UsageMonth | undefined>;

  findRecord(requestId: string): Promise<UsageRecord | undefined>;

  /** Removes records of the months before `month`, at most `limit`; where there are none, sums. Returns how many. */
  removeBefore(month: string, limit: number): Promise<number>;
}

/** `upTo` is the last entry that a repair has to take into account. */
export type DoubtfulMonth = UsageMonth & { upTo: string };

/** `repairs` counts them: of two repairs that begin at the same `lastEntry`, one may not have seen what the other has. */
export type KeptSum = { sum: UsageSum; repairs: number };
