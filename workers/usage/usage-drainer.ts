import { setImmediate as nextTurn } from 'node:timers/promises';
import { pauseToBeat } from '../../shared/concurrency/at-beat.ts';
import { within } from '../../shared/concurrency/shutdown.ts';
import type { PlanFile } from '../../shared/plan-file/plan-file.ts';
import type { Log } from '../../shared/process/log.ts';
import { ifAvailable, type Redis } from '../../shared/redis/connections.ts';
import { outboxKey } from '../../shared/redis/keys.ts';
import type { Store } from '../../shared/store/records/store.ts';
import type { UsageStore } from '../../shared/store/usage/usage-store.ts';
import {
  countLeases,
  createEndLeases,
  createExpireLeases,
  type ExpireLeases,
  type LeaseMetrics,
} from '../requests/expire-leases.ts';
import { type Backoff, createBackoff } from '../upkeep/backoff.ts';
import { createShareKeptRoom, type KeptMetrics } from '../upkeep/share-kept-room.ts';
import { createDrainHeld, createDrainPartition, type OnStored } from './drain-partition.ts';
import { createTrimOutbox, createTrimSchedule } from './outbox.ts';
import { createPartitionLocks } from './partition-locks.ts';
import { createRemoveOldUsage } from './remove-old-usage.ts';
import { createObserveOutboxes, type UsageMetrics } from './usage-metrics.ts';

/** The partitions of a dead worker become free after this time. A live worker renews its locks three times in it. */
const holdMs = 15_000;
const renewLocksEveryMs = 5_000;
/** If some partitions were free, as when the fleet starts, there may be more. */
const renewLocksAgainMs = 500;
const takenAtOnce = 16;
/** Between two batches of a partition, so that it is not drained record by record. */
const drainEveryMs = 250;
/** For usage without a notification: it was lost, or the usage comes from an ingress. */
const outboxesEveryMsMax = 10_000;
/** An ingress that seeds a counter reads the store, then what the outbox has beyond it. It may take this long in between. */
const trimAfterMs = 10_000;
const closeMs = 1_000;

type Task = 'renewing partition locks' | 'checking outboxes' | UpkeepTask;

export interface UsageDrainer extends AsyncDisposable {
  /** The partitions that this process holds now. */
  held(): readonly number[];
  /** There is usage in this partition's outbox; it is drained within 250 ms. False if another process holds the partition. */
  notify(partition: number): boolean;
}

/** Starts draining usage and expiring leases, and registers their gauges. */
export function openUsageDrainer(deps: {
  redis: Redis;
  store: Store;
  workerId: string;
  currentPlanFile: () => Pick<PlanFile, 'timeouts' | 'usageMonthsKept'>;
  onStored: OnStored;
  metrics: UsageMetrics & LeaseMetrics & KeptMetrics;
  log: Log;
}): UsageDrainer {
  const { redis, store, workerId, currentPlanFile, onStored, metrics, log } = deps;
  const requestMs = () => currentPlanFile().timeouts.requestMs;
  const monthsKept = () => currentPlanFile().usageMonthsKept;
  const endLeases = createEndLeases(redis, { requestMs });
  const expireLeases = createExpireLeases({ redis, endLeases, requestMs, metrics });
  const shareKeptRoom = createShareKeptRoom({ redis, report: metrics.reportKept });
  const drainer = createUsageDrainer({
    redis,
    store: store.usage,
    workerId,
    onStored,
    metrics,
    log,
    monthsKept,
    expireLeases,
    shareKeptRoom,
  });
  metrics.observeOutboxes(createObserveOutboxes(redis, drainer.held));
  metrics.observeLeases(() => countLeases(redis, drainer.held()));
  return drainer;
}

/**
 * Brings usage from the outboxes to the store while it lives, together with the drainers of all other workers (contract.md#n11-drainers).
 * Disposing of it ends within about two seconds, even if Redis or the store does not answer. Another worker repeats what was in progress.
 */
export function createUsageDrainer(deps: {
  redis: Redis;
  store: Pick<UsageStore, 'recordUsage' | 'recordRefusals' | 'removeUsageBefore' | 'removeOldHours'>;
  /** Unlike that of any other worker, also of a worker that ran before. */
  workerId: string;
  onStored?: OnStored;
  metrics: UsageMetrics;
  log: Log;
  monthsKept: () => number;
  expireLeases: ExpireLeases;
  shareKeptRoom: () => Promise<void>;
  /** A monotonic clock in milliseconds. */
  now?: () => number;
  random?: () => number;
  outboxesEveryMs?: number;
}): UsageDrainer {
  const { redis, store, workerId, metrics, log, now = () => performance.now(), random = Math.random } = deps;
  const { outboxesEveryMs = outboxesEveryMsMax, expireLeases, shareKeptRoom, monthsKept, onStored } = deps;
  const closing = new AbortController();
  const { signal } = closing;
  const { held, ...locks } = createPartitionLocks({ redis, workerId, holdMs, takenAtOnce, random });
  const backoff = createBackoff<number | 'the store' | Task>({ now, random });
  const attempt = createAttempt({ backoff, log, signal });
  const drainHeld = createDrainHeld({
    backoff,
    metrics,
    log,
    trimOutbox: createTrimOutbox(redis),
    drainPartition: createDrainPartition({ redis, store, ...(onStored && { onStored }), metrics, log }),
    schedule: createTrimSchedule({ afterMs: trimAfterMs, now }),
  });
  const pending = createPendingPartitions(held);
  const { notify } = pending;

  const pause = (ms: number) => pauseToBeat(ms, signal);
  /** Workers that started together do not stay in step. */
  const jitter = (ms: number) => ms * (0.75 + random() / 4);
  const removeOldUsage = createRemoveOldUsage({ redis, store, monthsKept, log });
  const upkeep = createPartitionUpkeep({
    held,
    expireLeases,
    removeOldUsage,
    shareKeptRoom,
    notify,
    attempt,
    pause,
    jitter,
    now,
    signal,
  });

  async function drain(): Promise<void> {
    const { more, failed } = await drainHeld(await pending.take(), signal);
    for (const partition of [...more, ...failed]) notify(partition);
    await (more.length > 0 ? nextTurn() : pause(drainEveryMs));
  }

  async function renewLocks(): Promise<void> {
    let taken: readonly number[] = [];
    await attempt('renewing partition locks', async () => {
      taken = await locks.renew();
    });
    for (const partition of taken) notify(partition);
    await pause(taken.length > 0 ? renewLocksAgainMs : jitter(renewLocksEveryMs));
  }

  async function checkOutboxes(): Promise<void> {
    await pause(jitter(outboxesEveryMs));
    if (signal.aborted) return;
    await attempt('checking outboxes', async () => {
      const partitions = held();
      const lengthOf = (partition: number) => ifAvailable(redis, redis.xlen(outboxKey(partition)));
      const lengths = await Promise.all(partitions.map(lengthOf));
      for (const [index, partition] of partitions.entries()) if (lengths[index] !== 0) notify(partition);
    });
  }

  const steps = [renewLocks, checkOutboxes, drain, upkeep.expire, upkeep.removeUsage, upkeep.shareKeptRoom];
  const loops = steps.map((step) => repeat(step, signal));
  return {
    held,
    notify,
    async [Symbol.asyncDispose]() {
      closing.abort();
      pending.wake();
      await within(closeMs, Promise.all(loops));
      if (redis.status === 'ready') await within(closeMs, locks.release()).catch(() => {});
    },
  };
}

/** Partitions that are known to have usage that is not in the store yet. */
function createPendingPartitions(held: () => readonly number[]) {
  const partitions = new Set<number>();
  let woken = Promise.withResolvers<void>();
  return {
    /** False if another process holds the partition. */
    notify(partition: number): boolean {
      if (!held().includes(partition)) return false;
      partitions.add(partition);
      woken.resolve();
      return true;
    },
    /** Waits until there is one, or until `wake`. */
    async take(): Promise<number[]> {
      await woken.promise;
      woken = Promise.withResolvers();
      const taken = [...partitions];
      partitions.clear();
      return taken;
    },
    wake: () => woken.resolve(),
  };
}

/** Runs a task, and logs its first failure. False if it failed. */
function createAttempt({ backoff, log, signal }: { backoff: Backoff<Task>; log: Log; signal: AbortSignal }) {
  return async function attempt(name: Task, work: () => Promise<void>): Promise<boolean> {
    try {
      await work();
      backoff.succeeded(name);
      return true;
    } catch (error) {
      if (backoff.failed(name) && !signal.aborted) log.warn({ err: error }, `${name} failed; trying again`);
      return false;
    }
  };
}

/** Repeats a step, which does not fail. */
async function repeat(step: () => Promise<void>, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) await step();
}

/** A lease lives at least 30 s (shared/limits/admit.ts), so one that starts after a check never expires late. */
const expireEveryMsMax = 20_000;
const expireEveryMs = 1_000;
/** Few round trips for 64 partitions, and few concurrent calls if many leases have to be ended. */
const partitionsAtOnce = 16;
const removeEveryMs = 24 * 60 * 60_000;
const upkeepAgainMs = 60_000;
const upkeepCheckMs = 10_000;
/** The worker that holds this partition does what is for all partitions, so that not all workers do. */
const leadingPartition = 0;
const shareEveryMs = 1_000;

type UpkeepTask = 'expiring leases' | 'removing old usage' | 'sharing the room for kept answers';

/**
 * Expires the leases of the partitions that this worker holds, removes old usage, and shares the room for kept answers. Each function is
 * one round, and does not fail.
 */
function createPartitionUpkeep(deps: {
  held: () => readonly number[];
  expireLeases: ExpireLeases;
  removeOldUsage: (signal: AbortSignal) => Promise<void>;
  shareKeptRoom: () => Promise<void>;
  /** Called if there is usage in the outbox of this partition. */
  notify: (partition: number) => void;
  /** False if the work failed, which is logged. */
  attempt: (name: UpkeepTask, work: () => Promise<void>) => Promise<boolean>;
  pause: (ms: number) => Promise<void>;
  jitter: (ms: number) => number;
  now: () => number;
  signal: AbortSignal;
}) {
  const { held, attempt, pause, jitter, now, signal } = deps;
  /** When the leases of a partition are checked next; at once if it is unknown. */
  const expireAt = new Map<number, number>();
  let removeAt = now();

  async function expirePartition(partition: number): Promise<void> {
    const { ended, nextMs = expireEveryMsMax } = await deps.expireLeases(partition);
    expireAt.set(partition, now() + Math.min(nextMs, jitter(expireEveryMsMax)));
    if (ended > 0) deps.notify(partition);
  }

  return {
    async expire(): Promise<void> {
      const left = held().filter((partition) => (expireAt.get(partition) ?? 0) <= now());
      while (left.length > 0 && !signal.aborted) {
        const next = left.splice(0, partitionsAtOnce);
        await Promise.all(next.map((partition) => attempt('expiring leases', () => expirePartition(partition))));
      }
      await pause(expireEveryMs);
    },
    async removeUsage(): Promise<void> {
      if (held().includes(leadingPartition) && now() >= removeAt) {
        const removed = await attempt('removing old usage', () => deps.removeOldUsage(signal));
        removeAt = now() + (removed ? removeEveryMs : upkeepAgainMs);
      }
      await pause(upkeepCheckMs);
    },
    async shareKeptRoom(): Promise<void> {
      if (held().includes(leadingPartition)) await attempt('sharing the room for kept answers', deps.shareKeptRoom);
      await pause(shareEveryMs);
    },
  };
}
