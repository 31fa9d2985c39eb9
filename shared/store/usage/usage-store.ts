import { createDetailReads, createUsageByKey } from './read-usage-details.ts';
import { createDayTally, type UsageDay } from './usage-details.ts';
import type { UsageRecord } from './usage-record.ts';
import { createUsageRepairs, detailPages, type RecomputedUsage } from './usage-repairs.ts';
import type { UsageMonth, UsageSum } from './usage-sums.ts';
import type { UsageTables } from './usage-tables.ts';

export type { RecomputedUsage } from './usage-repairs.ts';

type MonthPage = { after?: UsageMonth | undefined; limit: number };

const beforeAll = { account: '', month: '' };

/** Stored usage: a record of each request, and sums and details by account and month. */
export function createUsageStore(tables: UsageTables) {
  const { recompute, repair, repairUntilExact } = createUsageRepairs(tables);

  return {
    /**
     * Adds records of one outbox partition, in the outbox's order, to the records, details and sums. Any number of callers may submit the
     * same records, split differently, and may be interrupted at any point: once a call for each record has succeeded, every request has
     * one record and is counted once (contract.md#r5-sums). A request that already has a record keeps it.
     */
    async recordUsage(records: readonly UsageRecord[]): Promise<void> {
      if (records.length === 0) return;
      for (const month of await tables.take(records)) await repairUntilExact(month);
    },
    /** Reads only data that a failover cannot undo, and no details. */
    async findUsageSum(account: string, month: string): Promise<UsageSum | undefined> {
      return (await tables.readSum({ account, month }))?.sum;
    },
    /** Returns a month's usage by day and model, in this order. It can be slightly ahead of the sum. */
    async findUsageDays(account: string, month: string): Promise<UsageDay[]> {
      const tally = createDayTally();
      for await (const page of detailPages(tables, { account, month })) tally.add(page.map(({ detail }) => detail));
      return tally.days();
    },
    ...createUsageByKey(tables),
    details: createDetailReads(tables),
    findUsageRecord: tables.findRecord,
    findUsageByAnswer: tables.findByAnswer,
    listUsageRecords: tables.listRecords,
    removeUsageBefore: tables.removeBefore,
    recomputeUsage: (account: string, month: string, upTo: string): Promise<RecomputedUsage> =>
      recompute({ account, month, upTo }),
    repairUsage: (account: string, month: string, upTo: string): Promise<boolean> => repair({ account, month, upTo }),
    /** Lists every account and month that has a sum or a record, in a fixed order, starting after `after`. */
    async listUsageMonths({ after = beforeAll, limit }: MonthPage): Promise<UsageMonth[]> {
      const months: UsageMonth[] = [];
      while (months.length < limit) {
        const next = await tables.nextMonth(months.at(-1) ?? after);
        if (next === undefined) break;
        months.push(next);
      }
      return months;
    },
  };
}

export type UsageStore = ReturnType<typeof createUsageStore>;
