import { z } from 'zod';
import { storedJson } from '../json/stored-values.ts';
import { type Redis, readStrings, redisUnavailable } from '../redis/connections.ts';
import { backendPauseKey } from '../redis/keys.ts';

/** `since` and `until`: milliseconds of Redis's clock. */
const pauseSchema = z.object({ since: z.number(), until: z.number(), by: z.string(), reason: z.string().nullable() });

const storedPause = storedJson.pipe(pauseSchema);

/** A pause of a backend that an operator has set. */
export type BackendPause = z.infer<typeof pauseSchema>;

/** The pauses that operators have set. Each ends when its key expires. Redis keeps them, as it keeps everything else. */
export function createBackendPauses(redis: Redis) {
  return {
    /** Replaces an earlier pause. Fails with `SERVICE_UNAVAILABLE`. */
    async set(backend: string, pause: BackendPause): Promise<void> {
      const lifeMs = Math.max(1, Math.ceil(pause.until - pause.since));
      await redisUnavailable(redis.set(backendPauseKey(backend), JSON.stringify(pause), 'PX', lifeMs));
    },
    /** No effect if it is not paused. Fails with `SERVICE_UNAVAILABLE`. */
    async end(backend: string): Promise<void> {
      await redisUnavailable(redis.del(backendPauseKey(backend)));
    },
    /** The pauses of these backends; null for one that is not paused, and none for one whose node of a cluster is unavailable. */
    async read(backends: readonly string[]): Promise<ReadonlyMap<string, BackendPause | null>> {
      const texts = backends.length === 0 ? [] : await readStrings(redis, backends.map(backendPauseKey));
      return new Map(
        backends.flatMap((backend, index) => {
          const text = texts[index];
          if (text === undefined) return [];
          return [[backend, text === null ? null : storedPause.parse(text)] as const];
        }),
      );
    },
  };
}

export type BackendPauses = ReturnType<typeof createBackendPauses>;
