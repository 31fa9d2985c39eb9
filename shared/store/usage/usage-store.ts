import { createDetailReads, createUsageByKey, type DetailReads, type UsageByKey } from './read-usage-details.ts';
import { createDayTally, type UsageDay } from './usage-details.ts';
import type { RecordPage, UsageRecord } from './usage-record.ts';
import { createUsageRepairs, detailPages, type RecomputedUsage } from './usage-repairs.ts';
import type { UsageMonth, UsageSum } from './usage-sums.ts';
import type { UsageTables } from './usage-tables.ts';

/** Stored usage: a record of each request, and sums and details by account and month. */
export interface UsageStore extends UsageByKey {
  readonly details: DetailReads;

  /**
   * Adds records of one outbox partition, in the outbox's order, to the records, details and sums. Any number of callers may submit the
   * same records, split differently, and may be interrupted at any point: once a call for each record has succeeded, every request has one
   * record and is counted once (contract.md#r5-sums). A request that already has a record keeps it.
   */
  recordUsage(records: readonly UsageRecord[]): Promise<void>;

  /** Reads only data that a failover cannot undo, and no details. */
  findUsageSum(account: string, month: string): Promise<UsageSum | undefined>;

  /** Returns a month's usage by day and model, in this order. It can be slightly ahead of the sum. */
  findUsageDays(account: string, month: string): Promise<UsageDay[]>;

  findUsageRecord(requestId: string): Promise<UsageRecord | undefined>;

  /** Finds the account's request whose answer has this id; if there are several, the latest. */
  findUsageByAnswer(account: string, answerId: string): Promise<UsageRecord | undefined>;

  /** Lists the account's records by admission. Looks at no more than it returns. */
  listUsageRecords(account: string, page: RecordPage): Promise<UsageRecord[]>;

  /**
   * Returns the stored sum, the sum recomputed from the records up to the later of its own `lastEntry` and `upTo`, which is an entry or
   * empty, and how many details are wrong. Correct also while records arrive. A record that arrives out of order (an entry at or before
   * `lastEntry`) appears as a difference until its caller has repaired the month.
   */
  recomputeUsage(account: string, month: string, upTo: string): Promise<RecomputedUsage>;

  /** Writes the result of `recomputeUsage` if it differs. Returns false if it has changed in the meantime: then call it again. */
  repairUsage(account: string, month: string, upTo: string): Promise<boolean>;

  /** Lists every account and month that has a sum or a record, in a fixed order, starting after `after`. */
  listUsageMonths(page: { after?: UsageMonth | undefined; limit: number }): Promise<UsageMonth[]>;

  /**
   * Removes a piece of the usage of the months before `month` (`YYYY-MM`): records, then details, then sums. Returns how many. Until it
   * returns 0 there are more, and the sums of those months do not match their records.
   */
  removeUsageBefore(month: string): Promise<number>;
}

export type { RecomputedUsage } from './usage-repairs.ts';

export function createUsageStore(tables: UsageTables): UsageStore {
  const { recompute, repair, repairUntilExact } = createUsageRepairs(tables);

  return {
    async recordUsage(records) {
      if (records.length === 0) return;
      for (const month of await tables.take(records)) await repairUntilExact(month);
    },
    async findUsageSum(account, month) {
      return (await tables.readSum({ account, month }))?.sum;
    },
    async findUsageDays(account, month) {
      const tally = createDayTally();
      for await (const page of detailPages(tables, { account, month })) tally.add(page.map(({ detail }) => detail));
      return tally.days();
    },
    ...createUsageByKey(tables),
    details: createDetailReads(tables),
    findUsageRecord: (requestId) => tables.findRecord(requestId),
    findUsageByAnswer: (account, answerId) => tables.findByAnswer(account, answerId),
    listUsageRecords: (account, page) => tables.listRecords(account, page),
    recomputeUsage: (account, month, upTo) => recompute({ account, month, upTo }),
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
    removeUsageBefore: (month) => tables.removeBefore(month),
  };
}
