import { Counter, Gauge, Histogram, type Registry } from 'prom-client';
import { durationBuckets } from '../shared/metrics.ts';

export type WorkerMetrics = ReturnType<typeof createWorkerMetrics>;

export function createWorkerMetrics(registry: Registry) {
  const registers = [registry];
  return {
    queueWait: new Histogram({
      name: 'svc_queue_wait_seconds',
      help: "From a request's admission to the start of its job",
      labelNames: ['pool', 'lane'],
      buckets: durationBuckets,
      registers,
    }),
    notStarted: new Counter({
      name: 'svc_jobs_not_started_total',
      help: 'Jobs dropped before any backend was called: started too late, or past their deadline',
      labelNames: ['pool', 'reason'],
      registers,
    }),
    running: new Gauge({
      name: 'svc_jobs_running',
      help: 'Jobs that this worker has in hand',
      labelNames: ['pool'],
      registers,
    }),
    attempts: new Counter({
      name: 'svc_backend_attempts_total',
      help: 'Calls to backends by how they ended',
      labelNames: ['backend', 'model', 'outcome'],
      registers,
    }),
    attemptDuration: new Histogram({
      name: 'svc_backend_attempt_duration_seconds',
      help: 'From the call of a backend to its end',
      labelNames: ['backend', 'model'],
      buckets: durationBuckets,
      registers,
    }),
    firstToken: new Histogram({
      name: 'svc_backend_first_token_seconds',
      help: 'From the call of a backend to the first token of its stream',
      labelNames: ['backend', 'model'],
      buckets: durationBuckets,
      registers,
    }),
  };
}
