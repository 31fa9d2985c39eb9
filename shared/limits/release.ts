import { z } from 'zod';
import type { Claim } from '../jobs/idempotency.ts';
import type { Redis } from '../redis/connections.ts';
import { claimKeysOf, endedRequestKey, keyCountersKey, type Lane, leaseKeysOf } from '../redis/keys.ts';
import { loadLua, loadScript } from '../redis/load-lua.ts';
import { releasedLifeMs } from './admit.ts';

const leaseKeys = 'countersKey leasesKey leaseEndsKey lostRequestsKey endedRequestKey keyCountersKey';
const script = loadLua(new URL('./release.lua', import.meta.url), {
  keys: `${leaseKeys} claimKey? keptAnswersKey? keptBytesKey?`,
  args: 'request lifeMs which',
});
const answerSchema = z.enum(['released', 'started', 'ended']);

/** `released`: no worker will run it any more. `started`: another run has it. `ended`: it was settled or lost. */
export type ReleaseAnswer = z.infer<typeof answerSchema>;

/**
 * `run` is the run of the process that started the request and gives it back; `any` means that no process holds it. If omitted, only a
 * request that has not started is released. `keyId` is the key of its caller. `claim` is omitted if the request has no idempotency key.
 */
type Request = {
  account: string;
  keyId: string;
  requestId: string;
  lane?: Lane | undefined;
  run?: number | 'any';
  claim?: Pick<Claim, 'idempotencyKey'> | undefined;
};
export type Release = (request: Request) => Promise<ReleaseAnswer>;

/** Takes an admission back, even one that Redis executes later. Idempotent. Fails as the connection does. */
export function createRelease(redis: Redis): Release {
  const call = loadScript(redis, script);
  return async ({ account, keyId, requestId, lane = 'interactive', run = 'admitted', claim }) => {
    const keys = {
      ...leaseKeysOf(account, lane),
      endedRequestKey: endedRequestKey(account, requestId),
      keyCountersKey: keyCountersKey(account, keyId),
      ...(claim && claimKeysOf(account, claim.idempotencyKey)),
    };
    return answerSchema.parse(await call({ ...keys, request: requestId, lifeMs: releasedLifeMs[lane], which: run }));
  };
}
