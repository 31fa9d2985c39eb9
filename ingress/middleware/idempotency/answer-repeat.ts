import { endpointAt } from '../../../shared/endpoints/routes.ts';
import { temporarilyUnavailable } from '../../../shared/errors.ts';
import type { KeptAnswers } from '../../../shared/jobs/idempotency.ts';
import { type Redis, redisUnavailable } from '../../../shared/redis/connections.ts';
import { claimKey } from '../../../shared/redis/keys.ts';
import { repeatRefused } from '../../idempotency/repeat-refused.ts';
import { type Stage, stateOf } from '../../request-state.ts';

/**
 * Answers a repeat with the answer of the first request with its idempotency key, byte for byte, and does not call the next stage
 * (contract.md#h1-idempotency-keys). Fails with `IDEMPOTENCY_RESULT_LOST` if the answer was kept with secrets that are no longer in use.
 */
export function answerRepeat({ redis, keptAnswers }: { redis: Redis; keptAnswers: Pick<KeptAnswers, 'open'> }): Stage {
  return async function answerRepeat(ctx, next) {
    const { repeated } = ctx.state;
    if (repeated === undefined) return next();
    const { account } = stateOf(ctx, 'caller');
    const { idempotencyKey } = stateOf(ctx, 'claim');
    const sealed = await redisUnavailable(redis.hgetBuffer(claimKey(account, idempotencyKey), 'answer'));
    if (sealed === null) throw temporarilyUnavailable(new Error('a kept answer expired while it was read'));
    const answer = keptAnswers.open({ account, idempotencyKey }, sealed);
    if (answer === undefined) throw repeatRefused('lost');
    ctx.set({ 'idempotent-replayed': 'true', 'x-svc-original-request-id': repeated.first });
    const { estimate } = endpointAt(stateOf(ctx, 'call').endpoint).answer;
    if (estimate !== undefined && answer.estimated) ctx.set('x-svc-estimated', 'true');
    ctx.set('content-type', 'application/json; charset=utf-8');
    ctx.body = answer.body;
  };
}
