import { readFileSync } from 'node:fs';
import type { Redis } from 'ioredis';
import { loadScript } from '../../shared/redis/connections.ts';

const lua = readFileSync(new URL('./release.lua', import.meta.url), 'utf8');

/** Gives up what this worker holds, so that nobody waits for its hold to end. */
export type ReleaseLock = (key: string) => Promise<void>;

export function createReleaseLock(redis: Redis, { workerId }: { workerId: string }): ReleaseLock {
  const run = loadScript(redis, { name: 'svcLeave', lua, numberOfKeys: 1 });
  return async (key) => {
    await run([key], [workerId]);
  };
}
