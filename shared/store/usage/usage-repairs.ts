import { isDeepStrictEqual } from 'node:util';
import { pauseBeforeRetry } from '../documents/pause-before-retry.ts';
import { storeUnavailable } from '../documents/store-errors.ts';
import { compareMonth } from './compare-month.ts';
import type { UsageSum } from './usage-sums.ts';
import type { DoubtfulMonth, UsageTables } from './usage-tables.ts';

/** `kept`: the stored sum. `recomputed`: that of the records. `wrongDetails`: how many details are wrong or missing. */
export type RecomputedUsage = { kept: UsageSum | undefined; recomputed: UsageSum | undefined; wrongDetails: number };

const repairAttemptsMax = 50;

/** Compares months with their records, and repairs them (contract.md#r5-sums, contract.md#r11-details). */
export function createUsageRepairs(tables: UsageTables) {
  async function recompute(doubtful: DoubtfulMonth): Promise<RecomputedUsage> {
    const { month, kept, lastEntry } = await look(doubtful);
    let wrongDetails = 0;
    const total = await compareMonth(tables, month, {
      sumTo: lastEntry,
      detailsTo: kept?.sum.lastEntry ?? '',
      async onWrong(changes) {
        wrongDetails += changes.length;
      },
    });
    const isEmpty = kept === undefined && total.requests === 0;
    return { kept: kept?.sum, recomputed: isEmpty ? undefined : { ...month, lastEntry, total }, wrongDetails };
  }

  /** Details first: they contain everything that the sum contains. */
  async function repair(doubtful: DoubtfulMonth): Promise<boolean> {
    const { month, kept, lastEntry } = await look(doubtful);
    let areWritten = true;
    const total = await compareMonth(tables, month, {
      sumTo: lastEntry,
      detailsTo: lastEntry,
      async onWrong(changes) {
        if (!(await tables.replaceDetails(month, changes))) areWritten = false;
      },
    });
    if (!areWritten) return false;
    if (kept === undefined && total.requests === 0) return true;
    const sum = { ...month, lastEntry, total };
    if (isDeepStrictEqual(kept?.sum, sum)) return true;
    return tables.replaceSum(sum, kept);
  }

  async function look({ account, month, upTo }: DoubtfulMonth) {
    const kept = await tables.readSum({ account, month });
    const lastEntry = kept !== undefined && kept.sum.lastEntry > upTo ? kept.sum.lastEntry : upTo;
    return { month: { account, month }, kept, lastEntry };
  }

  return {
    recompute,
    repair,
    async repairUntilExact(doubtful: DoubtfulMonth): Promise<void> {
      for (let attempt = 1; !(await repair(doubtful)); attempt += 1) {
        if (attempt === repairAttemptsMax)
          throw storeUnavailable(new Error('a sum changed during each of too many repair attempts'));
        await pauseBeforeRetry(attempt);
      }
    },
  };
}
