import { z } from 'zod';
import type { Redis } from '../../shared/redis/connections.ts';
import { loadLua, loadScript } from '../../shared/redis/load-lua.ts';

const acquireLua = loadLua(new URL('./acquire.lua', import.meta.url), { keys: 'lockKey', args: 'worker holdMs' });
const releaseLua = loadLua(new URL('./release.lua', import.meta.url), { keys: 'lockKey', args: 'worker' });

const heldSchema = z.number();

/** Acquires or renews this lock for `holdMs` (contract.md#m9-locks). False if another worker holds it. */
export type AcquireLock = (key: string) => Promise<boolean>;

export function createAcquireLock(
  redis: Redis,
  { workerId, holdMs }: { workerId: string; holdMs: number },
): AcquireLock {
  const run = loadScript(redis, acquireLua);
  return async (lockKey) => heldSchema.parse(await run({ lockKey, worker: workerId, holdMs })) === 1;
}

/** Releases a lock that this worker holds, so that no other worker waits until it expires. */
export type ReleaseLock = (key: string) => Promise<void>;

export function createReleaseLock(redis: Redis, { workerId }: { workerId: string }): ReleaseLock {
  const run = loadScript(redis, releaseLua);
  return async (lockKey) => {
    await run({ lockKey, worker: workerId });
  };
}
