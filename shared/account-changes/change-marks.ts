import { type Redis, redisUnavailable } from '../redis/connections.ts';
import { versionKeysOf } from '../redis/keys.ts';
import { loadLua, loadScript } from '../redis/load-lua.ts';

/**
 * How long a change or a removal of an account is marked. Half of it is for the decision (change-account.ts,
 * workers/upkeep/remove-unused-devices.ts), the rest for the last write: the driver may take 4 s to give up a silent socket, 2 s to
 * find a server, 2 s for a connection and 4 s to retry the write (shared/store/mongo/mongo-calls.ts). A mark that is not removed
 * costs only reads of the store.
 */
export const markLifeMs = 30_000;

const keys = 'versionKey fillKey changesKey';
const markLua = loadLua(new URL('./mark-change.lua', import.meta.url), { keys, args: 'change lifeMs' });
const unmarkLua = loadLua(new URL('./unmark-change.lua', import.meta.url), { keys, args: 'change' });

/** From now on, no ingress uses a cached caller of this account. Fails with `SERVICE_UNAVAILABLE`. */
export function createMarkChange(redis: Redis) {
  const run = loadScript(redis, markLua);
  return async function markChange(account: string, change: string): Promise<void> {
    await redisUnavailable(run({ ...versionKeysOf(account), change, lifeMs: markLifeMs }));
  };
}

/** Called after the change: from now on, callers may be cached again. Fails with `SERVICE_UNAVAILABLE`. */
export function createUnmarkChange(redis: Redis) {
  const run = loadScript(redis, unmarkLua);
  return async function unmarkChange(account: string, change: string): Promise<void> {
    await redisUnavailable(run({ ...versionKeysOf(account), change }));
  };
}
