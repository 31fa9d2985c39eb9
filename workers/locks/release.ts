import { readFileSync } from 'node:fs';
import { loadScript, type Redis } from '../../shared/redis/connections.ts';

const lua = readFileSync(new URL('./release.lua', import.meta.url), 'utf8');

/** Releases a lock that this worker holds, so that no other worker waits until it expires. */
export type ReleaseLock = (key: string) => Promise<void>;

export function createReleaseLock(redis: Redis, { workerId }: { workerId: string }): ReleaseLock {
  const run = loadScript(redis, { name: 'svcLeave', lua, numberOfKeys: 1 });
  return async (key) => {
    await run([key], [workerId]);
  };
}
