import type { Redis } from 'ioredis';
import { outboxKey, outboxMarksKey } from '../../shared/redis-keys.ts';

/** The stream id up to which a partition's outbox is in the store, and whether it has anything beyond. */
export type FoundUsage = { upTo: string; isWaiting: boolean };

/** Two short calls for each partition: all that most of them cost, most of the time. */
export function createFindUsage(redis: Redis): (partition: number) => Promise<FoundUsage> {
  return async function findUsage(partition) {
    const upTo = (await redis.hget(outboxMarksKey(partition), 'drained')) ?? '0-0';
    const first = await redis.xrange(outboxKey(partition), `(${upTo}`, '+', 'COUNT', 1);
    return { upTo, isWaiting: first.length > 0 };
  };
}
