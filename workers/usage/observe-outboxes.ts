import type { Redis } from 'ioredis';
import { partitionCount } from '../../shared/redis-keys.ts';
import { within } from '../../shared/shutdown.ts';
import { createLookAtOutbox } from './look-at-outbox.ts';
import { redisNow } from './redis-now.ts';

/** Over all partitions: entries in all and in the longest, and for how long the oldest has waited for the store. */
export type OutboxesStanding = { entries: number; longest: number; ageSeconds: number };

/** A scrape does not wait longer for Redis. */
const lookMsMax = 1_000;

/**
 * Looks at all outboxes in one round trip; who asks meanwhile shares the look. Undefined while Redis does not answer, which is
 * not asked again before it has.
 */
export function createObserveOutboxes(redis: Redis): () => Promise<OutboxesStanding | undefined> {
  const lookAtOutbox = createLookAtOutbox(redis);
  const partitions = Array.from({ length: partitionCount }, (_, partition) => partition);
  let looking: Promise<OutboxesStanding | undefined> | undefined;

  async function look(): Promise<OutboxesStanding> {
    const [now, ...all] = await Promise.all([redisNow(redis), ...partitions.map(lookAtOutbox)]);
    const lengths = all.map(({ length }) => length);
    const since = Math.min(now, ...all.map(({ waitingSince }) => waitingSince ?? now));
    return {
      entries: lengths.reduce((sum, length) => sum + length, 0),
      longest: Math.max(...lengths),
      ageSeconds: (now - since) / 1_000,
    };
  }

  return async function observeOutboxes() {
    if (looking === undefined && redis.status !== 'ready') return undefined;
    looking ??= look()
      .catch(() => undefined)
      .finally(() => {
        looking = undefined;
      });
    const shared = looking;
    return (await within(lookMsMax, shared)) ? shared : undefined;
  };
}
