import { Gauge, type Registry } from 'prom-client';

export type QueueMetrics = ReturnType<typeof createQueueMetrics>;

export function createQueueMetrics(registry: Registry) {
  const registers = [registry];
  return {
    running: new Gauge({
      name: 'svc_jobs_running',
      help: 'Jobs in progress in this worker',
      labelNames: ['pool', 'lane'],
      registers,
    }),
    concurrency: new Gauge({
      name: 'svc_worker_concurrency',
      help: 'Max jobs of one model in progress in this worker. Lines of batches use at most this many, and only what requests leave free',
      labelNames: ['lane'],
      registers,
    }),
  };
}
