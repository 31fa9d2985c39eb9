import { readFileSync } from 'node:fs';
import type { Redis } from 'ioredis';
import { loadScript, redisUnavailable } from '../../shared/redis.ts';
import { changesKey, fillKey, versionKey } from '../../shared/redis-keys.ts';

const lua = readFileSync(new URL('./mark-change.lua', import.meta.url), 'utf8');

/**
 * A call of the store gives up after 5 s, and what its driver has under way by then ends, or is refused by the version
 * that it was decided on, within as long again. Three times that: a mark that nobody takes away costs only readings.
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
