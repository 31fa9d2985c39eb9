import { temporarilyUnavailable } from '../../shared/errors.ts';
import { overloaded } from '../api/overloaded.ts';
import type { IngressMetrics } from '../metrics.ts';
import type { QueueBounds, QueuePlace } from '../queue/queue-bounds.ts';
import { type AppContext, type Stage, stateOf } from '../request-state.ts';

/**
 * Refuses a request for which the queue has no room, or whose reply could not be received, before Redis is asked and anything is
 * charged. A request that is let through keeps its place while its stages run, or longer where one of them takes the place over.
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
    const place = enterQueue(ctx);
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

  /** A function of its own: a stage that waits keeps its local variables, and the body would be one of them. */
  function enterQueue(ctx: AppContext): QueuePlace {
    const { pool, model, body } = stateOf(ctx, 'call');
    // An account that is unknown here may not exist; admission answers that.
    const account = ctx.state.caller?.account ?? '';
    if (replyTo() === undefined) throw temporarilyUnavailable(new Error('no reply could be received'));
    const entry = queueBounds.enter({ model, account, bytes: Buffer.byteLength(body) });
    if ('full' in entry) {
      metrics.queueRefusals.inc({ pool, model, reason: entry.full });
      throw overloaded('its queue is full', random);
    }
    ctx.state.fairShare = entry.requestsAtOnceMax;
    return entry.place;
  }
}
