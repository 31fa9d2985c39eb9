import { repeatWhile } from '../../shared/concurrency/repeat-while.ts';
import type { Log } from '../../shared/process/log.ts';
import { type Redis, redisUnavailable } from '../../shared/redis/connections.ts';
import { requestsToEndKey } from '../../shared/redis/keys.ts';

/** Long enough for an ingress that cannot reach Redis for a while. */
const keptMs = 60_000;

/**
 * Each ingress reads the ids once a second, while it has a request; no command while nothing runs
 * (decisions.md#requests-to-end-read-once-a-second).
 */
export function createRequestsToEnd({
  redis,
  log,
  everyMs = 1_000,
}: {
  redis: Redis;
  log: Pick<Log, 'debug'>;
  everyMs?: number;
}) {
  const followed = new Map<string, Set<() => void>>();

  async function lookAtAll(): Promise<void> {
    for (const id of await redis.zrange(requestsToEndKey, '0', '-1')) {
      const listeners = followed.get(id) ?? [];
      followed.delete(id);
      for (const onEnded of listeners) onEnded();
    }
  }

  const looking = repeatWhile({
    everyMs,
    work: lookAtAll,
    isNeeded: () => followed.size > 0,
    onFailure: (error) => log.debug({ err: error }, 'cannot determine which requests are to end'),
  });

  return {
    /** Ends these requests about a second later, on whichever ingress they are. `at`: Redis's time. Fails with `SERVICE_UNAVAILABLE`. */
    async add(ids: readonly string[], at: Date): Promise<void> {
      const now = at.getTime();
      const added = redis
        .multi()
        .zremrangebyscore(requestsToEndKey, '-inf', String(now - keptMs))
        .zadd(requestsToEndKey, ...ids.flatMap((id) => [now, id]))
        .pexpire(requestsToEndKey, keptMs)
        .exec();
      await redisUnavailable(added);
    },
    /** Whether this id was added within the last minute. Fails with `SERVICE_UNAVAILABLE`. */
    has: async (id: string): Promise<boolean> => (await redisUnavailable(redis.zscore(requestsToEndKey, id))) !== null,
    /** Calls `onEnded` once if this request, or the requests of this key, are to end. The returned function unsubscribes. */
    follow(id: string, onEnded: () => void): () => void {
      const listeners = followed.get(id) ?? new Set();
      followed.set(id, listeners.add(onEnded));
      looking.begin();
      return () => {
        listeners.delete(onEnded);
        if (listeners.size === 0 && followed.get(id) === listeners) followed.delete(id);
      };
    },
    [Symbol.dispose]: looking[Symbol.dispose],
  };
}

/**
 * The requests that operators end (contract.md#l9-requests-that-operators-end), and those of revoked keys
 * (contract.md#l7-suspension). Each is named by its own id or by that of its key.
 */
export type RequestsToEnd = ReturnType<typeof createRequestsToEnd>;
