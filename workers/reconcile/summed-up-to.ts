import type { Redis } from 'ioredis';
import { entryOf } from '../../shared/jobs/usage-outbox.ts';
import { redisUnavailable } from '../../shared/redis/connections.ts';
import { outboxKey, outboxMarksKey } from '../../shared/redis/keys.ts';
import { redisNow } from '../redis-now.ts';

/**
 * An entry of a partition up to which every record that the store has must be in its sum, and none comes any more: where the
 * outbox is `drained` to, and beyond that whatever lies before the first entry that waits and before now. Beyond it there
 * are only records that came from a Redis which has lost its data since. Fails with `SERVICE_UNAVAILABLE`.
 */
export async function summedUpTo(redis: Redis, partition: number): Promise<string> {
  // In this order: what is appended after the first of these comes after it, and what is drained meanwhile does no harm.
  const now = await redisUnavailable(redisNow(redis));
  const drained = (await redisUnavailable(redis.hget(outboxMarksKey(partition), 'drained'))) ?? '0-0';
  const waiting = await redisUnavailable(redis.xrange(outboxKey(partition), `(${drained}`, '+', 'COUNT', 1));
  const [earliest = ''] = [`${now}-0`, ...waiting.map(([id]) => id)].map(entryBefore).sort();
  const drainedEntry = entryOf(drained);
  return earliest > drainedEntry ? earliest : drainedEntry;
}

const sequenceMax = 9_999_999_999; // the highest that an entry has room for

/** The last entry that could come before this id. */
export function entryBefore(streamId: string): string {
  const [milliseconds = 0, sequence = 0] = streamId.split('-').map(Number);
  return entryOf(sequence > 0 ? `${milliseconds}-${sequence - 1}` : `${milliseconds - 1}-${sequenceMax}`);
}
