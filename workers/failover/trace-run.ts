import type { QueuedCall } from '../../shared/jobs/inference-job.ts';
import type { Lane } from '../../shared/lane.ts';
import { queueAttributes } from '../../shared/tracing/queue-attributes.ts';
import type { Span, TraceContext, Tracing } from '../../shared/tracing/span.ts';

type TracedRun = {
  job: Pick<QueuedCall, 'requestId' | 'model' | 'endpoint'> & { trace?: TraceContext | undefined; batch?: string };
  run: number;
  lane: Lane;
  queueWaitMs: number;
};

/**
 * Starts the span of a run in the trace of its job, beside one for its time in the queue. A line of a batch, and a job of an ingress that
 * does not trace, begin a trace.
 */
export function traceRun(
  tracing: Tracing | undefined,
  { job: { requestId, model, endpoint, trace, batch }, run, lane, queueWaitMs }: TracedRun,
): Span | undefined {
  if (tracing === undefined) return undefined;
  const startedAt = performance.now() - queueWaitMs;
  const attributes = {
    ...queueAttributes('process', model),
    'svc.request_id': requestId,
    'svc.model': model,
    'svc.endpoint': endpoint,
    'svc.lane': lane,
    'svc.run': run,
    'svc.batch': batch,
  };
  if (trace === undefined) {
    const span = tracing.start(`process ${model}`, { kind: 'consumer', startedAt, attributes });
    span.start('queue', { startedAt }).end();
    return span;
  }
  tracing.start('queue', { parent: trace, startedAt }).end();
  return tracing.start(`process ${model}`, { kind: 'consumer', parent: trace, attributes });
}
