import type { ExpireLeases } from '../requests/expire-leases.ts';

/** A lease lives at least 30 s (lease-life.ts), so one that starts after a check never expires late. */
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

export type UpkeepTask = 'expiring leases' | 'removing old months' | 'sharing the room for kept answers';

/**
 * Expires the leases of the partitions that this worker holds, removes old months, and shares the room for kept answers. Each function is
 * one round, and fails only when `signal` is aborted.
 */
export function createPartitionUpkeep(deps: {
  held: () => readonly number[];
  expireLeases: ExpireLeases;
  removeOldMonths: (signal: AbortSignal) => Promise<void>;
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
    async removeMonths(): Promise<void> {
      if (held().includes(leadingPartition) && now() >= removeAt) {
        const removed = await attempt('removing old months', () => deps.removeOldMonths(signal));
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
