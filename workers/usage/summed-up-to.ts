import { entryOf } from '../../shared/jobs/usage-outbox.ts';
import { type Redis, redisUnavailable } from '../../shared/redis/connections.ts';
import { outboxKey, outboxMarksKey } from '../../shared/redis/keys.ts';
import { redisNow } from '../../shared/redis/redis-now.ts';

/**
 * Returns the entry of a partition up to which every record in the store must be in its sum, and no further record comes: the `drained`
 * mark of the outbox, or a later position before the first waiting entry and before now. Records after it can only be from a Redis that
 * has lost its data since. Fails with `SERVICE_UNAVAILABLE`.
 */
export async function summedUpTo(redis: Redis, partition: number): Promise<string> {
  // In this order: entries that are appended after the first read come after `now`, and entries drained meanwhile do no harm.
  const now = await redisUnavailable(redisNow(redis, outboxKey(partition)));
  const drained = (await redisUnavailable(redis.hget(outboxMarksKey(partition), 'drained'))) ?? '0-0';
  const waiting = await redisUnavailable(redis.xrange(outboxKey(partition), `(${drained}`, '+', 'COUNT', 1));
  const [earliest = ''] = [`${now}-0`, ...waiting.map(([id]) => id)].map(entryBefore).sort();
  const drainedEntry = entryOf(drained);
  return earliest > drainedEntry ? earliest : drainedEntry;
}

const sequenceMax = 9_999_999_999; // the highest that an entry can hold

/** Returns the last possible entry before this id. */
export function entryBefore(streamId: string): string {
  const [milliseconds = 0, sequence = 0] = streamId.split('-').map(Number);
  return entryOf(sequence > 0 ? `${milliseconds}-${sequence - 1}` : `${milliseconds - 1}-${sequenceMax}`);
}
