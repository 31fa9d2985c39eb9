import { Gauge, type Registry } from 'prom-client';
import { createLimitMetrics } from '../shared/process/metrics.ts';
import { createBackendMetrics } from './backends/backend-metrics.ts';
import { createBatchMetrics } from './batches/batch-metrics.ts';
import { createAnswerMetrics } from './failover/try-backend.ts';
import { createLeaseMetrics } from './requests/expire-leases.ts';
import { createRequestMetrics } from './requests/process-request.ts';
import { createKeptMetrics } from './upkeep/share-kept-room.ts';
import { createIndexMetrics } from './upkeep/start-maintenance.ts';
import { createUsageMetrics } from './usage/usage-metrics.ts';
import { createWebhookMetrics } from './webhooks/deliver-to-endpoint.ts';

/** All metrics of a worker. Each part of the worker takes only its own. */
export function createWorkerMetrics(registry: Registry) {
  return {
    ...createLimitMetrics(registry),
    ...createRequestMetrics(registry),
    ...createQueueMetrics(registry),
    ...createAnswerMetrics(registry),
    ...createBackendMetrics(registry),
    ...createLeaseMetrics(registry),
    ...createUsageMetrics(registry),
    ...createBatchMetrics(registry),
    ...createIndexMetrics(registry),
    ...createKeptMetrics(registry),
    ...createWebhookMetrics(registry),
  };
}

function createQueueMetrics(registry: Registry) {
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
