import type { Redis } from 'ioredis';
import { within } from '../../shared/process/shutdown.ts';
import { redisNow } from '../redis-now.ts';
import { createReadOutbox } from './read-outbox.ts';

/** Over the partitions that this worker looks after: entries in all and in the longest, and for how long the oldest has waited for the store. */
export type OutboxTotals = { entries: number; longest: number; ageSeconds: number };

/** A scrape does not wait longer for Redis. */
const lookMsMax = 1_000;

/**
 * Looks at the outboxes of the partitions that are held, in one round trip; a caller that asks meanwhile shares the look. Undefined while
 * Redis does not answer, which is not asked again before it has.
 */
export function createObserveOutboxes(
  redis: Redis,
  held: () => readonly number[],
): () => Promise<OutboxTotals | undefined> {
  const readOutbox = createReadOutbox(redis);
  let looking: Promise<OutboxTotals | undefined> | undefined;

  async function look(): Promise<OutboxTotals> {
    const [now, ...all] = await Promise.all([redisNow(redis), ...held().map(readOutbox)]);
    const lengths = all.map(({ length }) => length);
    const since = Math.min(now, ...all.map(({ waitingSince }) => waitingSince ?? now));
    return {
      entries: lengths.reduce((sum, length) => sum + length, 0),
      longest: Math.max(0, ...lengths),
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
