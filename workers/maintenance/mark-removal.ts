import { readFileSync } from 'node:fs';
import type { Redis } from 'ioredis';
import { z } from 'zod';
import { loadScript } from '../../shared/redis/connections.ts';
import { changesKey, countersKey, fillKey, leasesKey, versionKey } from '../../shared/redis/keys.ts';

const lua = readFileSync(new URL('./mark-removal.lua', import.meta.url), 'utf8');

/** As long as that of any other change (ingress/callers/revocation): a write may reach the store late. */
export const markLifeMs = 30_000;

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
