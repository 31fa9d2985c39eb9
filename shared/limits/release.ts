import type { Redis } from 'ioredis';
import { z } from 'zod';
import { loadScript } from '../redis.ts';
import { endedRequestKey, leaseEndsKey, leasesKey, lostRequestsKey, standingKey } from '../redis-keys.ts';
import { endedLifeMs } from './lease-life.ts';
import { readLua } from './read-lua.ts';

const answerSchema = z.enum(['released', 'started', 'ended']);

/** `released`: no worker will run it any more. `started`: a worker has it. `ended`: it was settled or lost. */
export type Released = z.infer<typeof answerSchema>;
export type Release = (request: { account: string; requestId: string }) => Promise<Released>;

/** Takes an admission back, also one that is carried out later; idempotent. Fails as the connection does. */
export function createRelease(redis: Redis): Release {
  const lua = readLua(new URL('./release.lua', import.meta.url), ['standing', 'leases']);
  const call = loadScript(redis, { name: 'svcRelease', lua, numberOfKeys: 5 });
  return async ({ account, requestId }) => {
    const keys = [standingKey(account), leasesKey(account), leaseEndsKey(account), lostRequestsKey(account)];
    return answerSchema.parse(await call([...keys, endedRequestKey(account, requestId)], [requestId, endedLifeMs]));
  };
}
