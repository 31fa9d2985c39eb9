import { readFileSync } from 'node:fs';
import { markLifeMs } from '../limits/mark-life.ts';
import { loadScript, type Redis, redisUnavailable } from '../redis/connections.ts';
import { changesKey, fillKey, versionKey } from '../redis/keys.ts';

const lua = readFileSync(new URL('./mark-change.lua', import.meta.url), 'utf8');

/** From now on, no ingress uses a cached caller of this account. Fails with `SERVICE_UNAVAILABLE`. */
export function createMarkChange(redis: Redis) {
  const run = loadScript(redis, { name: 'svcMarkChange', lua, numberOfKeys: 3 });
  return async function markChange(account: string, change: string): Promise<void> {
    const keys = [versionKey(account), fillKey(account), changesKey(account)];
    await redisUnavailable(run(keys, [change, markLifeMs]));
  };
}
