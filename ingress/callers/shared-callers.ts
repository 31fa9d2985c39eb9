import type { Redis } from 'ioredis';
import { z } from 'zod';
import { type Caller, callerSchema } from '../../shared/caller.ts';
import type { Log } from '../../shared/process/log.ts';
import { redisUnavailable } from '../../shared/redis/connections.ts';
import { callerKey } from '../../shared/redis/keys.ts';

/** Callers behind keys, as all ingresses together have read them from the store: a new ingress need not begin there. */
export interface SharedCallers {
  /** `ageMs` is how long ago it was read from the store. Fails with `SERVICE_UNAVAILABLE`. */
  get(hash: string): Promise<{ caller: Caller; ageMs: number } | undefined>;
  /** Never fails, and need not be waited for: a caller that is missing here is read from the store. */
  put(hash: string, caller: Caller): Promise<void>;
}

const lifeMs = 3_600_000;
const answerSchema = z.tuple([z.tuple([z.null(), z.string().nullable()]), z.tuple([z.null(), z.int()])]);

export function createSharedCallers({
  redis,
  secretsInUse,
  log,
}: {
  redis: Redis;
  /** Names the secrets that a key is known under; ingresses that have others must not take each other's word for one. */
  secretsInUse: string;
  log: Log;
}): SharedCallers {
  return {
    async get(hash) {
      const key = callerKey(secretsInUse, hash);
      const [[, text], [, lifeLeftMs]] = answerSchema.parse(await redisUnavailable(answersOf(redis, key)));
      const caller = text === null ? undefined : parseCaller(text);
      return caller && { caller, ageMs: ageOf(lifeLeftMs) };
    },
    async put(hash, caller) {
      await redis
        .set(callerKey(secretsInUse, hash), JSON.stringify(caller), 'PX', lifeMs)
        .catch((error: unknown) => log.debug({ err: error }, 'a caller could not be shared'));
    },
  };
}

/** What another version of this program wrote, or nobody can read, is as good as missing. */
function parseCaller(text: string): Caller | undefined {
  try {
    return callerSchema.safeParse(JSON.parse(text)).data;
  } catch {
    return undefined;
  }
}

/** By a clock that was put back it has more life left than it was given: then it is as old as it can be. */
function ageOf(lifeLeftMs: number): number {
  return lifeLeftMs >= 0 && lifeLeftMs <= lifeMs ? lifeMs - lifeLeftMs : lifeMs;
}

/** The value and what is left of its life, in one round trip; the first failure of the two, if there is one. */
async function answersOf(redis: Redis, key: string): Promise<unknown> {
  const answers = (await redis.pipeline().get(key).pttl(key).exec()) ?? [];
  for (const [error] of answers) if (error !== null) throw error;
  return answers;
}
