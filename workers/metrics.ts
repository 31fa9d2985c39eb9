import type { Registry } from 'prom-client';
import { createLimitMetrics } from '../shared/process/metrics.ts';
import { createAnswerMetrics } from './answers/answer-metrics.ts';
import { createBackendMetrics } from './backends/backend-metrics.ts';
import { createBatchMetrics } from './batches/batch-metrics.ts';
import { createLeaseMetrics } from './leases/expire-leases.ts';
import { createIndexMetrics } from './maintenance/observe-indexes.ts';
import { createKeptMetrics } from './maintenance/share-kept-room.ts';
import { createQueueMetrics } from './queue/queue-metrics.ts';
import { createRequestMetrics } from './requests/request-metrics.ts';
import { createUsageMetrics } from './usage/usage-metrics.ts';
import { createWebhookMetrics } from './webhooks/webhook-metrics.ts';

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
