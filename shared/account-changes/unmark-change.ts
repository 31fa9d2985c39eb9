import { readFileSync } from 'node:fs';
import { loadScript, type Redis, redisUnavailable } from '../redis/connections.ts';
import { changesKey, fillKey, versionKey } from '../redis/keys.ts';

const lua = readFileSync(new URL('./unmark-change.lua', import.meta.url), 'utf8');

/** Called after the change: from now on, callers may be cached again. Fails with `SERVICE_UNAVAILABLE`. */
export function createUnmarkChange(redis: Redis) {
  const run = loadScript(redis, { name: 'svcUnmarkChange', lua, numberOfKeys: 3 });
  return async function unmarkChange(account: string, change: string): Promise<void> {
    await redisUnavailable(run([versionKey(account), fillKey(account), changesKey(account)], [change]));
  };
}
