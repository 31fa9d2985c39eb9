import { z } from 'zod';
import { markLifeMs } from '../../shared/account-changes/change-marks.ts';
import type { Redis } from '../../shared/redis/connections.ts';
import { countersKey, leasesKey, versionKeysOf } from '../../shared/redis/keys.ts';
import { loadLua, loadScript } from '../../shared/redis/load-lua.ts';

const script = loadLua(new URL('./mark-removal.lua', import.meta.url), {
  keys: 'versionKey fillKey changesKey countersKey leasesKey',
  args: 'change lifeMs',
});

/** Marks this device as being removed. False if it is in use or being changed. `change`: an id of this removal. */
export type MarkRemoval = (account: string, change: string) => Promise<boolean>;

export function createMarkRemoval(redis: Redis): MarkRemoval {
  const run = loadScript(redis, script);
  return async function markRemoval(account, change) {
    const ofUse = { countersKey: countersKey(account), leasesKey: leasesKey(account) };
    return z.number().parse(await run({ ...versionKeysOf(account), ...ofUse, change, lifeMs: markLifeMs })) === 1;
  };
}
