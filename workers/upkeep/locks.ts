import { z } from 'zod';
import { type Redis, redisNow } from '../../shared/redis/connections.ts';
import { loadLua, loadScript } from '../../shared/redis/load-lua.ts';

const acquireLua = loadLua(new URL('./acquire.lua', import.meta.url), { keys: 'lockKey', args: 'worker holdMs' });
const releaseLua = loadLua(new URL('./release.lua', import.meta.url), { keys: 'lockKey', args: 'worker' });

/** Acquires or renews this lock for `holdMs` (contract.md#m9-locks). False if another worker holds it. */
export type AcquireLock = (key: string) => Promise<boolean>;

export function createAcquireLock(
  redis: Redis,
  { workerId, holdMs }: { workerId: string; holdMs: number },
): AcquireLock {
  const run = loadScript(redis, acquireLua);
  return async (lockKey) => z.number().parse(await run({ lockKey, worker: workerId, holdMs })) === 1;
}

/** Releases a lock that this worker holds, so that no other worker waits until it expires. */
export type ReleaseLock = (key: string) => Promise<void>;

export function createReleaseLock(redis: Redis, { workerId }: { workerId: string }): ReleaseLock {
  const run = loadScript(redis, releaseLua);
  return async (lockKey) => {
    await run({ lockKey, worker: workerId });
  };
}

/** If clocks differ by more than this, nothing is removed permanently. */
const clocksApartMsMax = 86_400_000;

/** Redis's time. Undefined if this machine's clock differs by more than a day, because then the age of data is unknown. */
export async function agreedNow(redis: Redis, now: () => number = Date.now): Promise<number | undefined> {
  const nowMs = await redisNow(redis);
  return Math.abs(nowMs - now()) > clocksApartMsMax ? undefined : nowMs;
}
