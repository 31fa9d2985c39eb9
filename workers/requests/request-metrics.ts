import { Counter, Histogram, type Registry } from 'prom-client';
import { durationBuckets } from '../../shared/process/metrics.ts';

export type RequestMetrics = ReturnType<typeof createRequestMetrics>;

export function createRequestMetrics(registry: Registry) {
  const registers = [registry];
  return {
    queueWait: new Histogram({
      name: 'svc_queue_wait_seconds',
      help: 'Time from the admission of a request to the start of its job',
      labelNames: ['pool', 'lane', 'endpoint'],
      buckets: durationBuckets,
      registers,
    }),
    notStarted: new Counter({
      name: 'svc_jobs_not_started_total',
      help: 'Jobs that called no backend, by reason: late, expired, interrupted, settled, gone or superseded',
      labelNames: ['pool', 'endpoint', 'reason'],
      registers,
    }),
  };
}
