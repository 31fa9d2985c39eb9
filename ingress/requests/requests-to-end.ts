import type { Log } from '../../shared/process/log.ts';
import { repeatWhile } from '../../shared/process/repeat-while.ts';
import { type Redis, redisUnavailable } from '../../shared/redis/connections.ts';
import { requestsToEndKey } from '../../shared/redis/coordination-keys.ts';

/** The requests that operators end (contract.md#l9-requests-that-operators-end). */
export interface RequestsToEnd extends Disposable {
  /** Ends this request about a second later, on whichever ingress it is. `at`: Redis's time. Fails with `SERVICE_UNAVAILABLE`. */
  add(requestId: string, at: Date): Promise<void>;
  /** Calls `onEnded` once if an operator ends this request. The returned function unsubscribes. */
  follow(requestId: string, onEnded: () => void): () => void;
}

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
}): RequestsToEnd {
  const followed = new Map<string, () => void>();

  async function lookAtAll(): Promise<void> {
    for (const requestId of await redis.zrange(requestsToEndKey, '0', '-1')) {
      const onEnded = followed.get(requestId);
      followed.delete(requestId);
      onEnded?.();
    }
  }

  const looking = repeatWhile({
    everyMs,
    work: lookAtAll,
    isNeeded: () => followed.size > 0,
    onFailure: (error) => log.debug({ err: error }, 'cannot determine which requests operators end'),
  });

  return {
    async add(requestId, at) {
      const now = at.getTime();
      const added = redis
        .multi()
        .zremrangebyscore(requestsToEndKey, '-inf', String(now - keptMs))
        .zadd(requestsToEndKey, now, requestId)
        .pexpire(requestsToEndKey, keptMs)
        .exec();
      await redisUnavailable(added);
    },
    follow(requestId, onEnded) {
      followed.set(requestId, onEnded);
      looking.begin();
      return () => followed.delete(requestId);
    },
    [Symbol.dispose]: looking[Symbol.dispose],
  };
}
