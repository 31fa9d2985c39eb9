import { setTimeout as sleep } from 'node:timers/promises';
import type { Log } from '../../shared/process/log.ts';
import type { UsageStore } from '../../shared/store/usage/usage-store.ts';

const sumsAtOnce = 500;
/** In these, a release without details may still count usage. */
const newestMonths = 2;
/** After each page of sums or records, so that the drain is not slowed down. */
const pauseMs = 25;

/**
 * Looks at the sums of all months, and completes the details of those that have usage from a release without details, or that a drainer left
 * behind (contract.md#r11-details), newest months first; if not `ofAll`, only at the newest. One month that fails does not block the
 * others; then it fails at the end. Returns whether all details were complete already.
 */
export function createCompleteUsageDetails({
  store,
  log,
  pause = (signal) => sleep(pauseMs, undefined, { signal }),
}: {
  store: Pick<UsageStore, 'listIncompleteUsage' | 'completeUsageDetails'>;
  log: Pick<Log, 'info'>;
  pause?: (signal: AbortSignal) => Promise<void>;
}): (signal: AbortSignal, bounds: { ofAll: boolean }) => Promise<boolean> {
  return async function completeDetails(signal, { ofAll }) {
    const months = new Set<string>();
    const failures: unknown[] = [];
    let [found, completed] = [0, 0];
    for (let after: Awaited<ReturnType<UsageStore['listIncompleteUsage']>>['last']; ; ) {
      const { incomplete, last } = await store.listIncompleteUsage({ after, limit: sumsAtOnce });
      found += incomplete.length;
      for (const month of incomplete) {
        try {
          if (await store.completeUsageDetails(month, { pause: () => pause(signal) })) completed += 1;
        } catch (error) {
          if (signal.aborted) throw error;
          failures.push(error);
        }
      }
      if (last === undefined) break;
      months.add(last.month);
      if (!ofAll && months.size > newestMonths) break;
      after = last;
      await pause(signal);
    }
    if (completed > 0) log.info({ months: completed }, 'the details of usage were completed');
    if (failures.length > 0) throw failures[0];
    return found === 0;
  };
}
