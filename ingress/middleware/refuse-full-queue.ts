import { temporarilyUnavailable, toApiError } from '../../shared/errors.ts';
import { holderOf } from '../../shared/store/records/account.ts';
import { overloadError } from '../listener/request-headers.ts';
import type { IngressMetrics } from '../metrics.ts';
import type { QueueBounds, QueuePlace } from '../queue/queue-bounds.ts';
import { type AppContext, type Stage, stateOf } from '../request-state.ts';

/**
 * Refuses a request if the queue has no room, or if its reply could not be received, before any call of Redis and before any charge. A
 * request that passes keeps its place while its stages run, or longer if one of them takes over the place.
 */
export function refuseFullQueue({
  queueBounds,
  metrics,
  replyTo,
  random = Math.random,
}: {
  queueBounds: Pick<QueueBounds, 'enter'>;
  metrics: Pick<IngressMetrics, 'queueRefusals'>;
  /** This ingress's reply stream, undefined while it has none. */
  replyTo: () => string | undefined;
  random?: () => number;
}): Stage {
  return async function refuseFullQueue(ctx, next) {
    const place = enterUnlessRepeat(ctx);
    if (place === undefined) return next();
    let isTakenOver = false;
    ctx.state.place = {
      takeOver() {
        isTakenOver = true;
        return place;
      },
    };
    try {
      await next();
    } finally {
      if (!isTakenOver) place.leave();
    }
  };

  /** A request with an idempotency key may be a repeat, which needs no room. Admission decides. */
  function enterUnlessRepeat(ctx: AppContext): QueuePlace | undefined {
    try {
      return enterQueue(ctx);
    } catch (error) {
      if (ctx.state.claim === undefined) throw error;
      ctx.state.refusal = toApiError(error);
      return undefined;
    }
  }

  /** A separate function, because a waiting stage keeps its local variables in memory, and the payload would be one of them. */
  function enterQueue(ctx: AppContext): QueuePlace {
    const { pool, model, endpoint, payload } = stateOf(ctx, 'call');
    // An unknown account may not exist; admission answers that.
    const { caller = { account: '', plan: '' } } = ctx.state;
    if (replyTo() === undefined) throw temporarilyUnavailable(new Error('no reply could be received'));
    const entry = queueBounds.enter({
      model,
      account: caller.account,
      holder: holderOf(caller),
      bytes: Buffer.byteLength(payload),
    });
    if ('full' in entry) {
      metrics.queueRefusals.inc({ pool, model, endpoint, reason: entry.full });
      throw overloadError('its queue is full', random);
    }
    ctx.state.fairShare = entry.requestsAtOnceMax;
    return entry.place;
  }
}
