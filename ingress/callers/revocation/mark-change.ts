import { readFileSync } from 'node:fs';
import type { Redis } from 'ioredis';
import { loadScript, redisUnavailable } from '../../../shared/redis/connections.ts';
import { changesKey, fillKey, versionKey } from '../../../shared/redis/keys.ts';

const lua = readFileSync(new URL('./mark-change.lua', import.meta.url), 'utf8');

/**
 * Half of it is for the decision (change-account.ts), the rest for the last write: the driver may take 4 s to give up a silent socket, 2 s
 * to find a server, 2 s for a connection and 4 s to retry the write (mongo-calls.ts). A mark that is not removed costs only reads of the
 * store.
 */
export const markLifeMs = 30_000;

/** From now on, no ingress uses a cached caller of this account. Fails with `SERVICE_UNAVAILABLE`. */
export function createMarkChange(redis: Redis) {
  const run = loadScript(redis, { name: 'svcMarkChange', lua, numberOfKeys: 3 });
  return async function markChange(account: string, change: string): Promise<void> {
    const keys = [versionKey(account), fillKey(account), changesKey(account)];
    await redisUnavailable(run(keys, [change, markLifeMs]));
  };
}
