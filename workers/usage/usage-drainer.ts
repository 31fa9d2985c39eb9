import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';
import type { Log } from '../../shared/process/log.ts';
import { within } from '../../shared/process/shutdown.ts';
import { outboxKey } from '../../shared/redis/keys.ts';
import type { UsageStore } from '../../shared/store/usage/usage-store.ts';
import type { ExpireLeases } from '../leases/expire-leases.ts';
import { createDrainHeld } from './drain-held.ts';
import { createDrainPartition } from './drain-partition.ts';
import { createFailureBackoff } from './failure-backoff.ts';
import { createPartitionKeeper } from './keep-partitions.ts';
import { createRemoveOldMonths } from './remove-old-months.ts';
import { createTrimOutbox } from './trim-outbox.ts';
import { createTrimSchedule } from './trim-schedule.ts';
import type { UsageMetrics } from './usage-metrics.ts';

/** A dead worker's partitions are free after so long; a live one renews them three times before. */
const holdMs = 15_000;
const lookEveryMs = 5_000;
/** Where some were free, as when the fleet starts, there may be more. */
const lookAgainMs = 500;
const takenAtOnce = 16;
/** Between two batches of a partition, so that one is not drained record by record. */
const drainEveryMs = 250;
/** For usage of which nothing was heard: a ring was lost, or it comes from an ingress or from the release before this one. */
const outboxesEveryMsMax = 10_000;
/** Leases live for 30 s at least (lease-life.ts), so that one that comes after a look is never late. */
const tendEveryMsMax = 20_000;
const tendEveryMs = 1_000;
/** Few round trips for 64 partitions, and still few calls at once where many leases have to be ended. */
const tendedAtOnce = 16;
/** An ingress that seeds a counter reads the store, then what the outbox has beyond it, and may take so long in between. */
const trimAfterMs = 10_000;
const removeEveryMs = 24 * 60 * 60_000;
const removeAgainMs = 60_000;
const removeLookMs = 10_000;
/** The partition whose keeper removes old months, so that not all workers do. */
const removingPartition = 0;
const closeMs = 1_000;

type Task = 'looking' | 'looking at outboxes' | 'tending' | 'removing';

export interface UsageDrainer extends AsyncDisposable {
  /** The partitions that this process looks after now. */
  held(): readonly number[];
  /** There is usage in this partition's outbox, which is drained within 250 ms; false where another process looks after it. */
  ring(partition: number): boolean;
}

/**
 * Brings usage from the outboxes to the store for as long as it lives, together with those of all other workers. Disposing of
 * it ends within about two seconds, whatever does not answer; what was under way is done again by another.
 */
export function createUsageDrainer(deps: {
  redis: Redis;
  store: Pick<UsageStore, 'recordUsage' | 'removeUsageBefore'>;
  /** Unlike that of any other worker, also of one that was here before. */
  workerId: string;
  metrics: UsageMetrics;
  log: Log;
  usageMonthsKept: number;
  expireLeases: ExpireLeases;
  /** A clock in milliseconds that only goes forward. */
  now?: () => number;
  random?: () => number;
  outboxesEveryMs?: number;
}): UsageDrainer {
  const { redis, store, workerId, metrics, log, now = () => performance.now(), random = Math.random } = deps;
  const { outboxesEveryMs = outboxesEveryMsMax } = deps;
  const closing = new AbortController();
  const { signal } = closing;
  const keeper = createPartitionKeeper({ redis, workerId, holdMs, takenAtOnce, random });
  const backoff = createFailureBackoff<number | 'the store' | Task>({ now, random });
  const drainHeld = createDrainHeld({
    drainPartition: createDrainPartition({ redis, store, metrics, log }),
    trimOutbox: createTrimOutbox(redis),
    schedule: createTrimSchedule({ afterMs: trimAfterMs, now }),
    backoff,
    metrics,
    log,
  });
  const removeOldMonths = createRemoveOldMonths({ redis, store, monthsKept: deps.usageMonthsKept, log });
  /** Partitions with usage that is not in the store yet, as far as is known. */
  const rung = new Set<number>();
  let bell = Promise.withResolvers<void>();
  /** When the leases of a partition are to be looked at next; at once where it is not known. */
  const tendAt = new Map<number, number>();

  const pause = (ms: number) => sleep(ms, undefined, { signal });
  /** Workers that have started together do not go on together. */
  const about = (ms: number) => ms * (0.75 + random() / 4);

  function ring(partition: number): boolean {
    if (!keeper.held().includes(partition)) return false;
    rung.add(partition);
    bell.resolve();
    return true;
  }

  async function drain(): Promise<void> {
    await bell.promise;
    bell = Promise.withResolvers();
    const partitions = [...rung];
    rung.clear();
    const { more, failed } = await drainHeld(partitions, signal);
    for (const partition of [...more, ...failed]) ring(partition);
    await (more.length > 0 ? nextTurn() : pause(drainEveryMs));
  }

  async function look(): Promise<void> {
    let taken: readonly number[] = [];
    await attempt('looking', async () => {
      taken = await keeper.look();
    });
    for (const partition of taken) ring(partition);
    await pause(taken.length > 0 ? lookAgainMs : about(lookEveryMs));
  }

  async function lookAtOutboxes(): Promise<void> {
    await pause(about(outboxesEveryMs));
    const held = keeper.held();
    await attempt('looking at outboxes', async () => {
      const lengths = await Promise.all(held.map((partition) => redis.xlen(outboxKey(partition))));
      for (const [index, partition] of held.entries()) if (lengths[index] !== 0) ring(partition);
    });
  }

  async function tend(): Promise<void> {
    const left = keeper.held().filter((partition) => (tendAt.get(partition) ?? 0) <= now());
    while (left.length > 0 && !signal.aborted) {
      const next = left.splice(0, tendedAtOnce);
      await Promise.all(next.map((partition) => attempt('tending', () => tendPartition(partition))));
    }
    await pause(tendEveryMs);
  }

  async function tendPartition(partition: number): Promise<void> {
    const { ended, nextMs = tendEveryMsMax } = await deps.expireLeases(partition);
    tendAt.set(partition, now() + Math.min(nextMs, about(tendEveryMsMax)));
    if (ended > 0) ring(partition);
  }

  let removeAt = now();
  async function remove(): Promise<void> {
    if (keeper.held().includes(removingPartition) && now() >= removeAt) {
      const removed = await attempt('removing', () => removeOldMonths(signal));
      removeAt = now() + (removed ? removeEveryMs : removeAgainMs);
    }
    await pause(removeLookMs);
  }

  async function attempt(name: Task, work: () => Promise<void>): Promise<boolean> {
    try {
      await work();
      backoff.worked(name);
      return true;
    } catch (error) {
      if (backoff.failed(name) && !signal.aborted) log.warn({ err: error }, `${name} failed; trying again`);
      return false;
    }
  }

  const loops = [look, lookAtOutboxes, drain, tend, remove].map((step) => repeat(step, signal));
  return {
    held: keeper.held,
    ring,
    async [Symbol.asyncDispose]() {
      closing.abort();
      bell.resolve();
      await within(closeMs, Promise.all(loops));
      if (redis.status === 'ready') await within(closeMs, keeper.releaseLock()).catch(() => {});
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
