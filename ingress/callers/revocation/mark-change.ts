import { readFileSync } from 'node:fs';
import type { Redis } from 'ioredis';
import { loadScript, redisUnavailable } from '../../../shared/redis/connections.ts';
import { changesKey, fillKey, versionKey } from '../../../shared/redis/keys.ts';

const lua = readFileSync(new URL('./mark-change.lua', import.meta.url), 'utf8');

/**
 * Half of it is for deciding (change-account.ts), the rest for the write that was decided last: the driver may take 4 s to
 * give up a silent socket, 2 s to find a server, 2 s for a connection and 4 s for the same write once more (mongo-calls.ts).
 * A mark that nobody takes away costs only readings.
 */
export const markLifeMs = 30_000;

/** From here on no caller of this account is taken from a cache, anywhere. Fails with `SERVICE_UNAVAILABLE`. */
export function createMarkChange(redis: Redis) {
  const run = loadScript(redis, { name: 'svcMarkChange', lua, numberOfKeys: 3 });
  return async function markChange(account: string, change: string): Promise<void> {
    const keys = [versionKey(account), fillKey(account), changesKey(account)];
    await redisUnavailable(run(keys, [change, markLifeMs]));
  };
}
