import type { Registry } from 'prom-client';
import { createLimitMetrics } from '../shared/process/metrics.ts';
import { createBackendMetrics } from './backends/backend-metrics.ts';
import { createBatchMetrics } from './batches/batch-metrics.ts';
import { createAnswerMetrics } from './failover/answer-metrics.ts';
import { createQueueMetrics } from './queue/queue-metrics.ts';
import { createLeaseMetrics } from './requests/expire-leases.ts';
import { createRequestMetrics } from './requests/request-metrics.ts';
import { createIndexMetrics } from './upkeep/observe-indexes.ts';
import { createKeptMetrics } from './upkeep/share-kept-room.ts';
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
