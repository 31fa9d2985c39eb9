import { ApiError } from '../../shared/errors.ts';
import type { Log } from '../../shared/log.ts';
import type { WorkerMetrics } from '../metrics.ts';
import type { Drained } from './drain-partition.ts';
import type { OutboxStanding } from './look-at-outbox.ts';
import type { TrimOutbox } from './trim-outbox.ts';
import type { TrimSchedule } from './trim-schedule.ts';
import type { Troubles } from './troubles.ts';

/** Calls of the store at once: one that takes long, or a large repair, does not keep all other partitions waiting. */
const partitionsAtOnce = 4;

type Parts = {
  lookAtOutbox: (partition: number) => Promise<OutboxStanding>;
  drainPartition: (partition: number) => Promise<Drained>;
  trimOutbox: TrimOutbox;
  schedule: TrimSchedule;
  troubles: Troubles<number | 'the store'>;
  metrics: Pick<WorkerMetrics, 'usageDrainFailures'>;
  log: Pick<Log, 'info' | 'warn' | 'error'>;
};

/**
 * Looks at all of these partitions in one round trip, drains a batch of each that has usage, and trims what is due; true where
 * there is more. A store that is away is left alone for a while, as a whole; any other failure keeps back its own partition only.
 */
export function createDrainHeld(parts: Parts): (held: readonly number[], signal: AbortSignal) => Promise<boolean> {
  const { lookAtOutbox, drainPartition, trimOutbox, schedule, troubles, metrics, log } = parts;

  /** Whether there is usage. */
  async function look(partition: number): Promise<boolean> {
    const { upTo, waitingSince } = await lookAtOutbox(partition);
    if (waitingSince !== undefined) return true;
    await trimDrained(partition, upTo);
    troubles.worked(partition);
    return false;
  }

  /** Whether there is more. */
  async function drain(partition: number): Promise<boolean> {
    const { upTo, records, more } = await drainPartition(partition);
    if (records > 0 && troubles.worked('the store')) log.info({}, 'the store is back; usage is drained again');
    await trimDrained(partition, upTo);
    troubles.worked(partition);
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

  async function attempt(partition: number, work: (partition: number) => Promise<boolean>): Promise<boolean> {
    if (troubles.waits('the store') || troubles.waits(partition)) return false;
    try {
      return await work(partition);
    } catch (error) {
      metrics.usageDrainFailures.inc();
      if (error instanceof ApiError && error.code === 'SERVICE_UNAVAILABLE') {
        if (troubles.failed('the store')) log.warn({ err: error }, 'the store is away; usage waits in the outbox');
      } else if (troubles.failed(partition)) {
        log.error({ err: error, partition }, 'usage of a partition cannot be drained; trying again');
      }
      return false;
    }
  }

  return async function drainHeld(held, signal) {
    if (signal.aborted) return false;
    const looks = await Promise.all(held.map((partition) => attempt(partition, look)));
    const left = held.filter((_, index) => looks[index]);
    let more = false;
    const drainOneByOne = async () => {
      for (let next = left.pop(); next !== undefined && !signal.aborted; next = left.pop()) {
        if (await attempt(next, drain)) more = true;
      }
    };
    await Promise.all(Array.from({ length: partitionsAtOnce }, drainOneByOne));
    return more;
  };
}
