import { ifAvailable, type Redis, readStrings } from '../../shared/redis/connections.ts';
import { partitionCount, partitionLockKey } from '../../shared/redis/keys.ts';
import { createAcquireLock, createReleaseLock } from '../upkeep/locks.ts';

/** How many partitions of other workers are checked at each renewal. If one is free, all are checked: its worker held more of them. */
const checkedAtOnce = 4;

/**
 * The locks on partitions that this worker holds, so that not all workers do all work. This only saves work: it does no harm if two
 * workers hold the same partition. `takenAtOnce`: max partitions acquired at each renewal. It is low, so that workers that start together
 * get about the same number.
 */
export function createPartitionLocks({
  redis,
  workerId,
  holdMs,
  takenAtOnce,
  random,
}: {
  redis: Redis;
  workerId: string;
  holdMs: number;
  takenAtOnce: number;
  random: () => number;
}) {
  const acquireLock = createAcquireLock(redis, { workerId, holdMs });
  const releaseLock = createReleaseLock(redis, { workerId });
  const all = Array.from({ length: partitionCount }, (_, partition) => partition);
  let held: readonly number[] = [];
  let nextChecked = Math.floor(random() * partitionCount);

  async function renewHeld(): Promise<number[]> {
    // Half of what the script costs Redis. If another worker holds the partition, this extends its lock, once.
    const holders = await Promise.all(
      held.map((key) => ifAvailable(redis, redis.getex(partitionLockKey(key), 'PX', holdMs))),
    );
    return held.filter((_, index) => holders[index] === workerId);
  }

  async function acquire(wanted: readonly number[]): Promise<number[]> {
    const answers = await Promise.all(
      wanted.map((partition) => ifAvailable(redis, acquireLock(partitionLockKey(partition)))),
    );
    return wanted.filter((_, index) => answers[index]);
  }

  async function findFree(): Promise<number[]> {
    const others = all.filter((partition) => !held.includes(partition));
    const inTurn = [...others.filter((each) => each >= nextChecked), ...others.filter((each) => each < nextChecked)];
    const checked = inTurn.slice(0, checkedAtOnce);
    nextChecked = ((checked.at(-1) ?? 0) + 1) % partitionCount;
    const free = await freeOf(checked);
    return free.length === 0 ? [] : [...free, ...(await freeOf(inTurn.slice(checkedAtOnce)))];
  }

  /** Also those that this worker holds without knowing: its last renewal got no answer. */
  async function freeOf(partitions: readonly number[]): Promise<number[]> {
    const holders = await readStrings(redis, partitions.map(partitionLockKey));
    return partitions.filter((_, index) => holders[index] === null || holders[index] === workerId);
  }

  return {
    /** The partitions held at the last renewal. */
    held: (): readonly number[] => held,
    /**
     * Renews what is held, and acquires a few free partitions. Call it several times before a lock expires. Returns the partitions that
     * it has acquired: if there are some, more may be free.
     */
    async renew(): Promise<readonly number[]> {
      held = await renewHeld();
      const acquired = await acquire(pick(await findFree(), takenAtOnce, random));
      held = [...held, ...acquired];
      return acquired;
    },
    /** Releases all of them, for the worker that looks for free ones next. */
    async release(): Promise<void> {
      const released = held;
      held = [];
      await Promise.all(released.map((partition) => releaseLock(partitionLockKey(partition))));
    },
  };
}

/** Picks at random, or workers that look at the same moment would all want the same ones. */
function pick(partitions: readonly number[], count: number, random: () => number): number[] {
  const drawn = partitions.map((partition) => ({ partition, lot: random() })).sort((one, other) => one.lot - other.lot);
  return drawn.slice(0, count).map(({ partition }) => partition);
}
