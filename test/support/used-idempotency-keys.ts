import { bodyMarks, canonicalJson } from '../../ingress/middleware/idempotency.ts';
import { claimKey } from '../../shared/redis/keys.ts';
import type { Stack } from '../stack/stack.ts';
import { changeLease } from './change-lease.ts';
import { lostReport } from './limits-side.ts';
import { openRedis } from './open-redis.ts';

/** Beginnings of idempotency keys, by what became of the first request with them. The rest of a key is its path. */
export const usedKeys = { lost: 'lost', running: 'running', other: 'other' } as const;

/** Claims these keys for requests of an account that no process has sent. `pepper`: the first of the ingress. */
export async function claimUsedKeys(
  stack: Pick<Stack, 'redisUrl'>,
  { account, pepper, bodies }: { account: string; pepper: string; bodies: ReadonlyMap<string, object> },
): Promise<void> {
  const redis = openRedis(stack.redisUrl);
  for (const [path, body] of bodies) {
    for (const [how, name] of Object.entries(usedKeys)) {
      const idempotencyKey = name + path;
      const [mark] = bodyMarks([pepper], { account, idempotencyKey }, { endpoint: path, body: canonicalJson(body) });
      const claim = { request: idempotencyKey, body: how === 'other' ? 'another mark' : mark };
      await redis.hset(claimKey(account, idempotencyKey), { ...claim, ...(how !== 'running' && { ended: 'lost' }) });
    }
    await changeLease(redis, { account, requestId: usedKeys.running + path, fields: leaseOf(Date.now()) });
  }
  redis.disconnect();
}

/** The lease of a request that waits (contract.md#n1-lease). Nothing ends it. */
function leaseOf(admittedAt: number) {
  const times = { startBy: admittedAt + 30_000, deadline: admittedAt + 600_000 };
  const charged = { reservedTokens: 1, bucket: 0, month: '2030-05', overage: 0, admittedAt };
  return { state: 'admitted', run: 0, ...times, ...charged, report: JSON.stringify(lostReport) };
}
