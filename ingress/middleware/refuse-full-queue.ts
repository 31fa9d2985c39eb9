import { temporarilyUnavailable } from '../../shared/errors.ts';
import type { PlanFile } from '../../shared/process/plan-file.ts';
import { overloaded } from '../api/overloaded.ts';
import type { IngressMetrics } from '../metrics.ts';
import type { QueueBounds } from '../queue/queue-bounds.ts';
import { type AppContext, type Stage, stateOf } from '../request-state.ts';

/**
 * Refuses a request for which the queue has no room, or whose reply could not be received, before Redis is asked and anything is
 * charged. A request that is let through keeps its place while its stages run, or longer where one of them takes the place over.
 */
export function refuseFullQueue({
  planFile,
  queueBounds,
  metrics,
  replyTo,
  random = Math.random,
}: {
  planFile: PlanFile;
  queueBounds: Pick<QueueBounds, 'enter'>;
  metrics: Pick<IngressMetrics, 'queueRefusals'>;
  /** This ingress's reply stream, undefined while it has none. */
  replyTo: () => string | undefined;
  random?: () => number;
}): Stage {
  return async function refuseFullQueue(ctx, next) {
    takePlace(ctx);
    try {
      await next();
    } finally {
      ctx.state.place?.leave();
    }
  };

  /** A function of its own: a stage that waits keeps its local variables, and the body would be one of them. */
  function takePlace(ctx: AppContext): void {
    const { model, body } = stateOf(ctx, 'call');
    const pool = planFile.models[model]?.pool;
    if (pool === undefined) throw new Error('an earlier stage let an unknown model pass');
    // Of an account that is not known here yet, admission says that it has no such key.
    const account = ctx.state.caller?.account ?? '';
    if (replyTo() === undefined) throw temporarilyUnavailable(new Error('no reply could be received'));
    const entry = queueBounds.enter({ model, account, bytes: Buffer.byteLength(body) });
    if ('full' in entry) {
      metrics.queueRefusals.inc({ pool, model, reason: entry.full });
      throw overloaded('its queue is full', random);
    }
    ctx.state.place = entry.place;
    ctx.state.fairShare = entry.requestsAtOnceMax;
  }
}
