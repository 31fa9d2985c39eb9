import { readFileSync } from 'node:fs';
import { z } from 'zod';
import { markLifeMs } from '../../shared/limits/mark-life.ts';
import { loadScript, type Redis } from '../../shared/redis/connections.ts';
import { changesKey, countersKey, fillKey, leasesKey, versionKey } from '../../shared/redis/keys.ts';

const lua = readFileSync(new URL('./mark-removal.lua', import.meta.url), 'utf8');

/** Marks this device as being removed. False if it is in use or being changed. `change`: an id of this removal. */
export type MarkRemoval = (account: string, change: string) => Promise<boolean>;

export function createMarkRemoval(redis: Redis): MarkRemoval {
  const run = loadScript(redis, { name: 'svcMarkRemoval', lua, numberOfKeys: 5 });
  return async function markRemoval(account, change) {
    const ofVersion = [versionKey(account), fillKey(account), changesKey(account)];
    const ofUse = [countersKey(account), leasesKey(account)];
    return z.number().parse(await run([...ofVersion, ...ofUse], [change, markLifeMs])) === 1;
  };
}
