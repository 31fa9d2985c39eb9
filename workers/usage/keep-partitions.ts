import type { Redis } from 'ioredis';
import { partitionCount, partitionKeeperKey } from '../../shared/redis-keys.ts';
import { createHold } from '../holds/hold.ts';
import { createLeave } from '../holds/leave.ts';

/**
 * The partitions that this worker looks after, so that not all workers do everything. Only for economy: one that is looked
 * after by two comes to the same.
 */
interface PartitionKeeper {
  /** As of the last look. */
  held(): readonly number[];
  /** Goes on holding what is held, and takes a few that are free; to be called several times before a hold ends. */
  look(): Promise<void>;
  /** Gives up all of them, to whoever looks next. */
  leave(): Promise<void>;
}

type Parts = { redis: Redis; workerId: string; holdMs: number; takenAtOnce: number; random: () => number };

/** `takenAtOnce` is how many it takes at a look: few, so that workers that start together get about as many. */
export function createPartitionKeeper({ redis, workerId, holdMs, takenAtOnce, random }: Parts): PartitionKeeper {
  const hold = createHold(redis, { workerId, holdMs });
  const leave = createLeave(redis, { workerId });
  const all = Array.from({ length: partitionCount }, (_, partition) => partition);
  let held: readonly number[] = [];

  async function holdAll(partitions: readonly number[]): Promise<number[]> {
    const answers = await Promise.all(partitions.map((partition) => hold(partitionKeeperKey(partition))));
    return partitions.filter((_, index) => answers[index]);
  }

  async function free(): Promise<number[]> {
    const others = all.filter((partition) => !held.includes(partition));
    const taken = await Promise.all(others.map((partition) => redis.exists(partitionKeeperKey(partition))));
    return others.filter((_, index) => taken[index] === 0);
  }

  return {
    held: () => held,
    async look() {
      const kept = await holdAll(held);
      const wanted = pick(await free(), takenAtOnce, random);
      held = [...kept, ...(await holdAll(wanted))];
    },
    async leave() {
      const left = held;
      held = [];
      await Promise.all(left.map((partition) => leave(partitionKeeperKey(partition))));
    },
  };
}

/** Any of them, or workers that look at the same moment would all want the same. */
function pick(partitions: readonly number[], count: number, random: () => number): number[] {
  const drawn = partitions.map((partition) => ({ partition, lot: random() })).sort((one, other) => one.lot - other.lot);
  return drawn.slice(0, count).map(({ partition }) => partition);
}
