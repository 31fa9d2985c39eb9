import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';
import type { Log } from '../../shared/log.ts';
import { within } from '../../shared/shutdown.ts';
import type { UsageStore } from '../../shared/store/usage-store.ts';
import type { WorkerMetrics } from '../metrics.ts';
import { createDrainHeld } from './drain-held.ts';
import { createDrainPartition } from './drain-partition.ts';
import { createPartitionKeeper } from './keep-partitions.ts';
import { createLookAtOutbox } from './look-at-outbox.ts';
import { createRemoveOldMonths } from './remove-old-months.ts';
import { createTrimOutbox } from './trim-outbox.ts';
import { createTrimSchedule } from './trim-schedule.ts';
import { createTroubles } from './troubles.ts';

type Parts = {
  redis: Redis;
  store: Pick<UsageStore, 'recordUsage' | 'removeUsageBefore'>;
  /** Unlike that of any other worker, also of one that was here before. */
  workerId: string;
  metrics: WorkerMetrics;
  log: Log;
  usageMonthsKept: number;
  /** What else is to be done for each partition that is held, every two seconds; its failures are logged. */
  tendLeases: (partition: number) => Promise<void>;
  /** A clock in milliseconds that only goes forward. */
  now?: () => number;
  random?: () => number;
};

/** A dead worker's partitions are free after so long; a live one renews them ten times before. */
const holdMs = 5_000;
const lookEveryMs = 500;
const takenAtOnce = 16;
const drainEveryMs = 250;
const tendEveryMs = 2_000;
/** Few round trips for 64 partitions, and still few calls at once where many leases have to be ended. */
const tendedAtOnce = 16;
/** An ingress that seeds a counter reads the store, then what the outbox has beyond it, and may take so long in between. */
const trimAfterMs = 10_000;
const removeEveryMs = 24 * 60 * 60_000;
const removeAgainMs = 60_000;
/** The partition whose keeper removes old months, so that not all workers do. */
const removingPartition = 0;
const closeMs = 1_000;

/** `held` are the partitions that this process looks after now. */
type UsageDrainer = AsyncDisposable & { held(): readonly number[] };

/**
 * Brings usage from the outboxes to the store for as long as it lives, together with those of all other workers. Disposing of
 * it ends within about two seconds, whatever does not answer; what was under way is done again by another.
 */
export function createUsageDrainer(parts: Parts): UsageDrainer {
  const { redis, store, workerId, metrics, log, now = () => performance.now(), random = Math.random } = parts;
  const closing = new AbortController();
  const { signal } = closing;
  const keeper = createPartitionKeeper({ redis, workerId, holdMs, takenAtOnce, random });
  const troubles = createTroubles<number | 'the store' | 'looking' | 'tending' | 'removing'>({ now, random });
  const drainHeld = createDrainHeld({
    lookAtOutbox: createLookAtOutbox(redis),
    drainPartition: createDrainPartition({ redis, store, metrics, log }),
    trimOutbox: createTrimOutbox(redis),
    schedule: createTrimSchedule({ afterMs: trimAfterMs, now }),
    troubles,
    metrics,
    log,
  });
  const removeOldMonths = createRemoveOldMonths({ redis, store, monthsKept: parts.usageMonthsKept, log });

  async function drain(): Promise<void> {
    const more = await drainHeld(keeper.held(), signal);
    await (more ? nextTurn() : sleep(drainEveryMs, undefined, { signal }));
  }

  async function look(): Promise<void> {
    await attempt('looking', () => keeper.look());
    await sleep(lookEveryMs, undefined, { signal });
  }

  async function tend(): Promise<void> {
    const left = [...keeper.held()];
    while (left.length > 0 && !signal.aborted) {
      const next = left.splice(0, tendedAtOnce);
      await Promise.all(next.map((partition) => attempt('tending', () => parts.tendLeases(partition))));
    }
    await sleep(tendEveryMs, undefined, { signal });
  }

  let removeAt = now();
  async function remove(): Promise<void> {
    if (keeper.held().includes(removingPartition) && now() >= removeAt) {
      const removed = await attempt('removing', () => removeOldMonths(signal));
      removeAt = now() + (removed ? removeEveryMs : removeAgainMs);
    }
    await sleep(tendEveryMs, undefined, { signal });
  }

  async function attempt(name: 'looking' | 'tending' | 'removing', work: () => Promise<void>): Promise<boolean> {
    try {
      await work();
      troubles.worked(name);
      return true;
    } catch (error) {
      if (troubles.failed(name) && !signal.aborted) log.warn({ err: error }, `${name} failed; trying again`);
      return false;
    }
  }

  const loops = [look, drain, tend, remove].map((step) => repeat(step, signal));
  return {
    held: keeper.held,
    async [Symbol.asyncDispose]() {
      closing.abort();
      await within(closeMs, Promise.all(loops));
      if (redis.status === 'ready') await within(closeMs, keeper.leave()).catch(() => {});
    },
  };
}

/** Its steps fail by the signal only. */
async function repeat(step: () => Promise<void>, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    try {
      await step();
    } catch (error) {
      if (!signal.aborted) throw error;
    }
  }
}
