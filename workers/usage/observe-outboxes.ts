import { within } from '../../shared/process/shutdown.ts';
import { ifAvailable, type Redis } from '../../shared/redis/connections.ts';
import { createReadOutbox } from './outbox.ts';

/** Over the partitions that this worker holds: entries in total and in the longest outbox, and the age of the oldest undrained entry. */
export type OutboxTotals = { entries: number; longest: number; ageSeconds: number };

/** A scrape does not wait longer for Redis. */
const readMsMax = 1_000;

/**
 * Reads the outboxes of the partitions that are held, in one round trip. Concurrent callers share one read. Undefined while Redis does
 * not answer; no further read begins before it has.
 */
export function createObserveOutboxes(
  redis: Redis,
  held: () => readonly number[],
): () => Promise<OutboxTotals | undefined> {
  const readOutbox = createReadOutbox(redis);
  let reading: Promise<OutboxTotals | undefined> | undefined;

  async function readTotals(): Promise<OutboxTotals> {
    const answers = await Promise.all(held().map((partition) => ifAvailable(redis, readOutbox(partition))));
    const all = answers.filter((answer) => answer !== undefined);
    const lengths = all.map(({ length }) => length);
    return {
      entries: lengths.reduce((sum, length) => sum + length, 0),
      longest: Math.max(0, ...lengths),
      ageSeconds: Math.max(0, ...all.map(({ waitingMs }) => waitingMs)) / 1_000,
    };
  }

  return async function observeOutboxes() {
    if (reading === undefined && redis.status !== 'ready') return undefined;
    reading ??= readTotals()
      .catch(() => undefined)
      .finally(() => {
        reading = undefined;
      });
    const shared = reading;
    return (await within(readMsMax, shared)) ? shared : undefined;
  };
}
