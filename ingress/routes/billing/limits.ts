import { type Redis, redisUnavailable } from '../../../shared/redis/connections.ts';
import { leasesKey } from '../../../shared/redis/keys.ts';
import type { LimitsInUse } from '../../api/response-schemas.ts';
import { type Stage, stateOf } from '../../request-state.ts';
import type { CallerCounters } from './quota.ts';

/**
 * `GET /billing/limits`: how much of each limit of the plan the account uses now, by the counters that admission decides with. The tokens
 * of the month are in `GET /billing/quota`.
 */
export function retrieveLimits({ redis }: { redis: Redis }): Stage {
  return async function retrieveLimits(ctx) {
    const [caller, counters, planFile] = [stateOf(ctx, 'caller'), stateOf(ctx, 'counters'), stateOf(ctx, 'planFile')];
    ctx.body = await limitsInUse({ caller, counters, planFile }, redis);
  };
}

/** Also counts the account's leases: one more call to Redis. */
export async function limitsInUse(
  { caller: { account, plan }, counters: { lastMinute, dayRequests }, planFile }: CallerCounters,
  redis: Redis,
): Promise<LimitsInUse> {
  const limits = planFile.plans[plan];
  const [running = 0, lines = 0] = await redisUnavailable(
    Promise.all([redis.hlen(leasesKey(account)), redis.hlen(leasesKey(account, 'batch'))]),
  );
  const { requests, tokens, resetMs } = lastMinute;
  return {
    plan,
    requestsPerMinute: { limit: limits?.requestsPerMinute ?? null, used: requests, resetMs },
    tokensPerMinute: { limit: limits?.tokensPerMinute ?? null, used: tokens, resetMs },
    requestsPerDay: { limit: limits?.requestsPerDay ?? null, used: dayRequests },
    requestsAtOnce: { limit: limits?.requestsAtOnce ?? null, used: running },
    batchRequestsAtOnce: { limit: limits?.batchRequestsAtOnce ?? null, used: lines },
  };
}
