import type { Redis } from 'ioredis';
import { readStrings } from '../../shared/redis/connections.ts';
import { partitionCount, partitionLockKey } from '../../shared/redis/keys.ts';
import { createAcquireLock } from '../locks/acquire.ts';
import { createReleaseLock } from '../locks/release.ts';

/**
 * The partitions that this worker looks after, so that not all workers do everything. Only for economy: one that is looked
 * after by two comes to the same.
 */
interface PartitionKeeper {
  /** As of the last look. */
  held(): readonly number[];
  /**
   * Goes on holding what is held, and takes a few that are free; to be called several times before a hold ends. Says which it
   * has taken: where there were some, there may be more.
   */
  look(): Promise<readonly number[]>;
  /** Gives up all of them, to whoever looks next. */
  releaseLock(): Promise<void>;
}

/** Of the partitions of others, so many are asked for at a look; if one is free, then all: its worker had more of them. */
const askedAtOnce = 4;

/** `takenAtOnce` is how many it takes at a look: few, so that workers that start together get about as many. */
export function createPartitionKeeper({
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
}): PartitionKeeper {
  const acquireLock = createAcquireLock(redis, { workerId, holdMs });
  const releaseLock = createReleaseLock(redis, { workerId });
  const all = Array.from({ length: partitionCount }, (_, partition) => partition);
  let held: readonly number[] = [];
  let nextAsked = Math.floor(random() * partitionCount);

  async function renew(): Promise<number[]> {
    // Half of what the script costs Redis. Where another holds it, its hold is made longer by this, once.
    const holders = await Promise.all(held.map((key) => redis.getex(partitionLockKey(key), 'PX', holdMs)));
    return held.filter((_, index) => holders[index] === workerId);
  }

  async function take(wanted: readonly number[]): Promise<number[]> {
    const answers = await Promise.all(wanted.map((partition) => acquireLock(partitionLockKey(partition))));
    return wanted.filter((_, index) => answers[index]);
  }

  async function find(): Promise<number[]> {
    const others = all.filter((partition) => !held.includes(partition));
    const inTurn = [...others.filter((each) => each >= nextAsked), ...others.filter((each) => each < nextAsked)];
    const asked = inTurn.slice(0, askedAtOnce);
    nextAsked = ((asked.at(-1) ?? 0) + 1) % partitionCount;
    const found = await freeOf(asked);
    return found.length === 0 ? [] : [...found, ...(await freeOf(inTurn.slice(askedAtOnce)))];
  }

  async function freeOf(partitions: readonly number[]): Promise<number[]> {
    const holders = await readStrings(redis, partitions.map(partitionLockKey));
    return partitions.filter((_, index) => holders[index] === null);
  }

  return {
    held: () => held,
    async look() {
      held = await renew();
      const taken = await take(pick(await find(), takenAtOnce, random));
      held = [...held, ...taken];
      return taken;
    },
    async releaseLock() {
      const left = held;
      held = [];
      await Promise.all(left.map((partition) => releaseLock(partitionLockKey(partition))));
    },
  };
}

/** Any of them, or workers that look at the same moment would all want the same. */
function pick(partitions: readonly number[], count: number, random: () => number): number[] {
  const drawn = partitions.map((partition) => ({ partition, lot: random() })).sort((one, other) => one.lot - other.lot);
  return drawn.slice(0, count).map(({ partition }) => partition);
}
