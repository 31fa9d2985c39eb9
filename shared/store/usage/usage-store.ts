import { LRUCache } from 'lru-cache';
import { storeUnavailable } from '../adapters/store-errors.ts';
import { detailPages } from './compare-month.ts';
import { type CompleteDetails, createCompleteDetails } from './complete-details.ts';
import { createDetailReads, type DetailReads } from './read-usage-details.ts';
import { createUsageByKey, type UsageByKey } from './usage-by-key.ts';
import { createDayTally, inOrder, type UsageDay } from './usage-details.ts';
import type { RecordPage, UsageRecord } from './usage-record.ts';
import { createUsageRepairs, type RecomputedUsage } from './usage-repairs.ts';
import type { UsageMonth, UsageSum } from './usage-sums.ts';
import { type IncompletePage, isDetailed, type UsageTables } from './usage-tables.ts';

/** Stored usage: a record of each request, and sums and details by account and month. */
export interface UsageStore extends UsageByKey {
  readonly usageDetails: DetailReads;

  /**
   * Adds records of one outbox partition, in the outbox's order, to the records, details and sums. Any number of callers may submit the same
   * records, split differently, and may be interrupted at any point: once a call for each record has succeeded, every request has one
   * record and is counted once (contract.md#r5-sums). A request that already has a record keeps it.
   */
  recordUsage(records: readonly UsageRecord[]): Promise<void>;

  /** Reads only data that a failover cannot undo, and no details. */
  findUsageSum(account: string, month: string): Promise<UsageSum | undefined>;

  /**
   * Returns a month's usage by day and model, in this order. It can be slightly ahead of the sum. Fails with `SERVICE_UNAVAILABLE` also
   * while a store that was written by a release without details is being migrated, for an account with very many requests.
   */
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

  /** Looks at the sums that follow `after`, newest months first. Returns those whose details do not contain all of them, and the last one. */
  listIncompleteUsage(page: { after: UsageMonth | undefined; limit: number }): Promise<IncompletePage>;

  /** Adds to the details of a month what its sum has beyond them. */
  completeUsageDetails: CompleteDetails;

  /**
   * Removes a piece of the usage of the months before `month` (`YYYY-MM`): records, then details, then sums. Returns how many. Until it
   * returns 0 there are more, and the sums of those months do not match their records.
   */
  removeUsageBefore(month: string): Promise<number>;
}

export type { RecomputedUsage } from './usage-repairs.ts';

/** A drainer completes details only if that is short. The rest is left to the task of one worker, so that usage is not delayed. */
const completedWithBatch = { months: 8, recordsMax: 500 };
/** For how long, and of how many months, a drainer remembers that it would not be short. */
const farBehindKept = { ttl: 60_000, max: 10_000 };
/** A reader waits for this many records at most. */
const completedForReader = { recordsMax: 2_000 };

export function createUsageStore(tables: UsageTables): UsageStore {
  const { recompute, repair, repairUntilExact } = createUsageRepairs(tables);
  const completeDetails = createCompleteDetails(tables);
  const completeForReader = (month: UsageMonth) => completeDetails(month, completedForReader);
  const farBehind = new LRUCache<string, true>(farBehindKept);

  /** Complete also while the details are not: days of a release without details, while they have all usage of the month. */
  async function findPreviousDays(month: UsageMonth): Promise<UsageDay[] | undefined> {
    const kept = await tables.readSum(month);
    if (kept === undefined || isDetailed(kept)) return undefined;
    const days = await tables.readPreviousDays(month);
    if (days !== undefined) return inOrder(days);
    if (await completeForReader(month)) return undefined;
    throw storeUnavailable(new Error('the details of this month are being completed'));
  }

  async function completeWithBatch(incomplete: readonly UsageMonth[]): Promise<void> {
    const { months, recordsMax } = completedWithBatch;
    const near = incomplete.filter((month) => !farBehind.has(keyOf(month)));
    for (const [key, month] of [...new Map(near.map((month) => [keyOf(month), month]))].slice(0, months)) {
      // The usage is counted, and the task of one worker logs what fails here.
      const isComplete = await completeDetails(month, { recordsMax }).catch(() => undefined);
      if (isComplete === false) farBehind.set(key, true);
    }
  }

  return {
    async recordUsage(records) {
      if (records.length === 0) return;
      const { doubtful, incomplete } = await tables.take(records);
      for (const month of doubtful) await repairUntilExact(month);
      await completeWithBatch(incomplete);
    },
    async findUsageSum(account, month) {
      return (await tables.readSum({ account, month }))?.sum;
    },
    async findUsageDays(account, month) {
      const previous = await findPreviousDays({ account, month });
      if (previous !== undefined) return previous;
      const tally = createDayTally();
      for await (const page of detailPages(tables, { account, month })) tally.add(page.map(({ detail }) => detail));
      return tally.days();
    },
    ...createUsageByKey(tables, completeForReader),
    usageDetails: createDetailReads(tables, completeForReader),
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
    listIncompleteUsage: (page) => tables.listIncomplete(page),
    completeUsageDetails: completeDetails,
    removeUsageBefore: (month) => tables.removeBefore(month),
  };
}

function keyOf({ account, month }: UsageMonth): string {
  return `${account} ${month}`;
}
