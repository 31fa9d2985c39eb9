import type { Log } from '../../shared/process/log.ts';
import { ifAvailable, type Redis, redisUnavailable } from '../../shared/redis/connections.ts';
import { callerKey } from '../../shared/redis/keys.ts';
import { type Caller, callerSchema } from '../../shared/store/records/account.ts';

const lifeMs = 3_600_000;

/** Callers of keys in Redis, as read from the store by any ingress: a new ingress does not have to read them all again. */
export function createSharedCallers({
  redis,
  secretsInUse,
  log,
}: {
  redis: Redis;
  /** Identifies the configured secrets; ingresses with different secrets must not share callers. */
  secretsInUse: string;
  log: Log;
}) {
  return {
    /**
     * `ageMs` is the time since it was read from the store. Fails with `SERVICE_UNAVAILABLE`, but in a cluster a node that does not answer
     * has no callers: the account of the key may be on another one.
     */
    async get(hash: string): Promise<{ caller: Caller; ageMs: number } | undefined> {
      const key = callerKey(secretsInUse, hash);
      const read = Promise.all([redis.get(key), redis.pttl(key)]);
      const [text, lifeLeftMs] = (await redisUnavailable(ifAvailable(redis, read))) ?? [null, 0];
      const caller = text === null ? undefined : parseCaller(text);
      return caller && { caller, ageMs: ageOf(lifeLeftMs) };
    },
    /** Never fails, and does not have to be awaited: a caller that is missing here is read from the store. */
    async put(hash: string, caller: Caller): Promise<void> {
      await redis
        .set(callerKey(secretsInUse, hash), JSON.stringify(caller), 'PX', lifeMs)
        .catch((error: unknown) => log.debug({ err: error }, 'a caller could not be shared'));
    },
  };
}

export type SharedCallers = ReturnType<typeof createSharedCallers>;

/** A value that cannot be read counts as missing. */
function parseCaller(text: string): Caller | undefined {
  try {
    return callerSchema.safeParse(JSON.parse(text)).data;
  } catch {
    return undefined;
  }
}

/** After a clock is set back, the remaining life can exceed `lifeMs`: then the maximum age is assumed. */
function ageOf(lifeLeftMs: number): number {
  return lifeLeftMs >= 0 && lifeLeftMs <= lifeMs ? lifeMs - lifeLeftMs : lifeMs;
}
