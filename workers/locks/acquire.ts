import { readFileSync } from 'node:fs';
import { z } from 'zod';
import { loadScript, type Redis } from '../../shared/redis/connections.ts';

const lua = readFileSync(new URL('./acquire.lua', import.meta.url), 'utf8');

/** Acquires or renews this lock for `holdMs` (contract.md#m9-locks). False if another worker holds it. */
export type AcquireLock = (key: string) => Promise<boolean>;

export function createAcquireLock(
  redis: Redis,
  { workerId, holdMs }: { workerId: string; holdMs: number },
): AcquireLock {
  const run = loadScript(redis, { name: 'svcHold', lua, numberOfKeys: 1 });
  return async (key) => z.number().parse(await run([key], [workerId, holdMs])) === 1;
}
