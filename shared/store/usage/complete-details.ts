import { pauseBeforeRetry } from '../adapters/pause-before-retry.ts';
import { compareMonth } from './compare-month.ts';
import { type Pause, recordPages } from './record-pages.ts';
import type { UsageMonth } from './usage-sums.ts';
import { isDetailed, type KeptSum, type UsageTables } from './usage-tables.ts';

type Bounds = {
  /** If more records are missing in the details, nothing is done. */
  recordsMax?: number;
  pause?: Pause;
};

/** Returns whether the details of this month contain everything that its sum contains. */
export type CompleteDetails = (month: UsageMonth, bounds?: Bounds) => Promise<boolean>;

const attemptsMax = 50;

/**
 * Adds to a month's details what its sum has beyond them: usage that a worker of a release without details counted, or a drainer before this was
 * done (contract.md#r11-details). It may be interrupted at any point and continues there. Several may run at once, while records arrive.
 */
export function createCompleteDetails(tables: UsageTables): CompleteDetails {
  async function hasMoreThan(records: number, month: UsageMonth, range: { after: string; upTo: string }) {
    if (records === Number.POSITIVE_INFINITY) return false;
    let found = 0;
    for await (const page of recordPages(tables, month, range)) {
      found += page.length;
      if (found > records) return true;
    }
    return false;
  }

  /** Returns false if another process may have added some of these records, too. */
  async function add(month: UsageMonth, { sum, detailed }: KeptSum, pause: Pause | undefined): Promise<boolean> {
    let from = detailed;
    for await (const records of recordPages(tables, month, { after: from.lastEntry, upTo: sum.lastEntry, pause })) {
      const upTo = records.at(-1)?.entry ?? from.lastEntry;
      if (!(await tables.addDetails(month, { records, detailed: from, upTo }))) return false;
      from = { ...from, lastEntry: upTo };
    }
    return true;
  }

  /** Returns false if a detail has changed in the meantime. */
  async function repair(month: UsageMonth, { sum }: KeptSum, pause: Pause | undefined): Promise<boolean> {
    let areWritten = true;
    await compareMonth(tables, month, {
      sumTo: '',
      detailsTo: sum.lastEntry,
      async onWrong(changes) {
        if (!(await tables.replaceDetails(month, changes))) areWritten = false;
      },
      pause,
    });
    return areWritten;
  }

  return async function completeDetails(month, { recordsMax = Number.POSITIVE_INFINITY, pause } = {}) {
    let isDoubtful = false;
    for (let attempt = 1; attempt <= attemptsMax; attempt += 1) {
      const kept = await tables.readSum(month);
      if (kept === undefined || isDetailed(kept)) return true;
      const { lastEntry } = kept.sum;
      isDoubtful ||= kept.detailed.repairs !== kept.repairs;
      const after = isDoubtful ? '' : kept.detailed.lastEntry;
      if (await hasMoreThan(recordsMax, month, { after, upTo: lastEntry })) return false;
      if (isDoubtful) {
        isDoubtful = !(await repair(month, kept, pause));
        if (isDoubtful) await pauseBeforeRetry(attempt);
      } else isDoubtful = !(await add(month, kept, pause));
      if (!isDoubtful) await tables.noteDetailed(month, { lastEntry, repairs: kept.repairs });
    }
    return false;
  };
}
