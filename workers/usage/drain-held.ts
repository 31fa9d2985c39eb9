import { ApiError } from '../../shared/errors.ts';
import type { Log } from '../../shared/process/log.ts';
import type { DrainReport } from './drain-partition.ts';
import type { FailureBackoff } from './failure-backoff.ts';
import type { TrimOutbox, TrimSchedule } from './outbox.ts';
import type { UsageMetrics } from './usage-metrics.ts';

/** Concurrent calls of the store, so that a slow call or a large repair does not delay all other partitions. */
const partitionsAtOnce = 4;

/** Partitions to drain again: `more` at once, `failed` (or skipped because of a backoff) after a pause. */
type Remainder = { more: readonly number[]; failed: readonly number[] };

/**
 * Drains a batch of each of these partitions, and trims what is due. If the store is unavailable, all partitions back off. Any other
 * failure delays only its own partition.
 */
export function createDrainHeld(deps: {
  drainPartition: (partition: number) => Promise<DrainReport>;
  trimOutbox: TrimOutbox;
  schedule: TrimSchedule;
  backoff: FailureBackoff<number | 'the store'>;
  metrics: Pick<UsageMetrics, 'usageDrainFailures'>;
  log: Pick<Log, 'info' | 'warn' | 'error'>;
}): (partitions: readonly number[], signal: AbortSignal) => Promise<Remainder> {
  const { drainPartition, trimOutbox, schedule, backoff, metrics, log } = deps;

  /** True if there is more to drain. */
  async function drain(partition: number): Promise<boolean> {
    const { upTo, records, more } = await drainPartition(partition);
    if (records > 0 && backoff.worked('the store')) log.info({}, 'the store is available again; usage is drained');
    await trimDrained(partition, upTo);
    backoff.worked(partition);
    return more;
  }

  async function trimDrained(partition: number, upTo: string): Promise<void> {
    schedule.note(partition, upTo);
    const due = schedule.due(partition);
    if (due !== undefined) {
      await trimOutbox(partition, due);
      schedule.trimmed(partition);
    }
  }

  async function attempt(partition: number): Promise<'more' | 'done' | 'failed'> {
    if (backoff.waits('the store') || backoff.waits(partition)) return 'failed';
    try {
      return (await drain(partition)) ? 'more' : 'done';
    } catch (error) {
      metrics.usageDrainFailures.inc();
      if (error instanceof ApiError && error.code === 'SERVICE_UNAVAILABLE') {
        if (backoff.failed('the store'))
          log.warn({ err: error }, 'the store is unavailable; usage waits in the outbox');
      } else if (backoff.failed(partition)) {
        log.error({ err: error, partition }, 'usage of a partition cannot be drained; trying again');
      }
      return 'failed';
    }
  }

  return async function drainHeld(partitions, signal) {
    const waiting = [...partitions];
    const ended = new Map<number, 'more' | 'done' | 'failed'>();
    const drainOneByOne = async () => {
      for (let next = waiting.pop(); next !== undefined && !signal.aborted; next = waiting.pop()) {
        ended.set(next, await attempt(next));
      }
    };
    await Promise.all(Array.from({ length: partitionsAtOnce }, drainOneByOne));
    const those = (as: string) => partitions.filter((partition) => ended.get(partition) === as);
    return { more: those('more'), failed: those('failed') };
  };
}
