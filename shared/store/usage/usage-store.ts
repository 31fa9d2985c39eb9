import { isDeepStrictEqual } from 'node:util';
import { pauseBeforeRetry } from '../adapters/pause-before-retry.ts';
import { storeUnavailable } from '../adapters/store-errors.ts';
import type { UsageRecord } from './usage-record.ts';
import { createTally, type SummedRecord, totalOf, type UsageMonth, type UsageSum } from './usage-sums.ts';
import type { DoubtfulMonth, UsageTables } from './usage-tables.ts';

/** Stored usage: a record of each request, and sums by account and month. */
export interface UsageStore {
  /**
   * Adds records of one outbox partition, in the outbox's order, to the records and the sums. Any number of callers may submit the same
   * records, split differently, and may be interrupted at any point: once a call for each record has succeeded, every request has one
   * record and is counted once (contract.md#r5-sums). A request that already has a record keeps it.
   */
  recordUsage(records: readonly UsageRecord[]): Promise<void>;

  /** Reads only data that a failover cannot undo. */
  findUsageSum(account: string, month: string): Promise<UsageSum | undefined>;

  findUsageRecord(requestId: string): Promise<UsageRecord | undefined>;

  /**
   * Returns the stored sum, and the sum recomputed from the records up to the later of its own `lastEntry` and `upTo`, which is an entry or
   * empty. Correct also while records arrive. A record that arrives out of order (an entry at or before `lastEntry`) appears as a
   * difference until its caller has repaired the month.
   */
  recomputeUsage(account: string, month: string, upTo: string): Promise<RecomputedUsage>;

  /** Writes the result of `recomputeUsage` if it differs. Returns false if the sum has changed in the meantime: then call it again. */
  repairUsage(account: string, month: string, upTo: string): Promise<boolean>;

  /** Lists every account and month that has a sum or a record, in a fixed order, starting after `after`. */
  listUsageMonths(page: { after?: UsageMonth | undefined; limit: number }): Promise<UsageMonth[]>;

  /**
   * Removes records of the months before `month` (`YYYY-MM`), at most `limit`, and removes sums once no such record is left. Returns how
   * many. Until it returns 0 there are more, and the sums of those months do not match their records.
   */
  removeUsageBefore(month: string, limit: number): Promise<number>;
}

export type RecomputedUsage = { kept: UsageSum | undefined; recomputed: UsageSum | undefined };

const recordsAtOnce = 250;
const repairAttemptsMax = 50;

export function createUsageStore(tables: UsageTables): UsageStore {
  async function look({ account, month, upTo }: DoubtfulMonth) {
    const kept = await tables.readSum({ account, month });
    const lastEntry = kept !== undefined && kept.sum.lastEntry > upTo ? kept.sum.lastEntry : upTo;
    const tally = createTally();
    for await (const records of pagesOf(tables, { account, month }, lastEntry)) tally.add(records);
    const days = tally.days();
    if (kept === undefined && days.length === 0) return { kept, recomputed: undefined };
    return { kept, recomputed: { account, month, lastEntry, total: totalOf(days), days } };
  }

  async function repair(month: DoubtfulMonth): Promise<boolean> {
    const { kept, recomputed } = await look(month);
    if (recomputed === undefined || isDeepStrictEqual(kept?.sum, recomputed)) return true;
    return tables.replaceSum(recomputed, kept);
  }

  async function repairUntilExact(month: DoubtfulMonth): Promise<void> {
    for (let attempt = 1; !(await repair(month)); attempt += 1) {
      if (attempt === repairAttemptsMax)
        throw storeUnavailable(new Error('a sum changed during each of too many repair attempts'));
      await pauseBeforeRetry(attempt);
    }
  }

  return {
    async recordUsage(records) {
      if (records.length === 0) return;
      for (const month of await tables.take(records)) await repairUntilExact(month);
    },
    async findUsageSum(account, month) {
      return (await tables.readSum({ account, month }))?.sum;
    },
    findUsageRecord: (requestId) => tables.findRecord(requestId),
    async recomputeUsage(account, month, upTo) {
      const { kept, recomputed } = await look({ account, month, upTo });
      return { kept: kept?.sum, recomputed };
    },
    repairUsage: (account, month, upTo) => repair({ account, month, upTo }),
    async listUsageMonths({ after = { account: '', month: '' }, limit }) {
      const months: UsageMonth[] = [];
      while (months.length < limit) {
        const next = await tables.nextMonth(months.at(-1) ?? after);
        if (next === undefined) break;
        months.push(next);
      }
      return months;
    },
    removeUsageBefore: (month, limit) => tables.removeBefore(month, limit),
  };
}

async function* pagesOf(tables: UsageTables, month: UsageMonth, upTo: string): AsyncGenerator<SummedRecord[]> {
  for (let after = ''; ; ) {
    const page = await tables.readRecords(month, { after, upTo, limit: recordsAtOnce });
    const last = page.at(-1)?.entry;
    if (last === undefined) return;
    if (page.length < recordsAtOnce) return yield page;
    // Other records of the last entry may be left for the next page: after Redis was emptied, an entry can occur twice.
    const whole = page.filter(({ entry }) => entry < last);
    yield whole.length > 0 ? whole : page;
    after = whole.at(-1)?.entry ?? last;
  }
}
