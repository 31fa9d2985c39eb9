import { ApiError } from '../../shared/errors.ts';
import type { PlanFile } from '../../shared/plan-file.ts';
import type { IngressMetrics } from '../metrics.ts';
import type { QueueBounds } from '../queue-bounds.ts';
import { type Stage, stateOf } from '../request-state.ts';

type Parts = {
  planFile: PlanFile;
  queueBounds: Pick<QueueBounds, 'enter'>;
  metrics: Pick<IngressMetrics, 'queueRefusals'>;
  random?: () => number;
};

/**
 * Refuses what could only wait, at once and before anything is asked of Redis or charged (API C8, E6). A request that is let
 * through has its place for as long as its stages run, or for longer where one of them takes the place over.
 */
export function refuseFullQueue({ planFile, queueBounds, metrics, random = Math.random }: Parts): Stage {
  return async function refuseFullQueue(ctx, next) {
    const { model, body } = stateOf(ctx, 'call');
    const pool = planFile.models[model]?.pool;
    if (pool === undefined) throw new Error('an earlier stage let an unknown model pass');
    const entry = queueBounds.enter({ pool, bytes: Buffer.byteLength(body) });
    if ('full' in entry) {
      metrics.queueRefusals.inc({ pool, reason: entry.full });
      throw queueFull(random());
    }
    ctx.state.place = entry.place;
    try {
      await next();
    } finally {
      ctx.state.place?.leave();
    }
  };
}

const soonestMs = 1_000;
const latestMs = 5_000;

/**
 * Official SDKs come back after exactly as long as they are told: those refused in one moment are spread over some seconds,
 * or they would meet again at the same full queue. Not for longer, for nobody knows how fast a queue empties, and being
 * refused once more costs next to nothing. `share` is from 0 to 1.
 */
function queueFull(share: number): ApiError {
  const retryAfterMs = Math.round(soonestMs + share * (latestMs - soonestMs));
  return new ApiError('SERVICE_UNAVAILABLE', 'The service is overloaded: its queue is full. Retry later.', {
    retryAfterMs,
    headers: { 'retry-after-ms': String(retryAfterMs) },
  });
}
