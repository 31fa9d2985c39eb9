import { Counter, collectDefaultMetrics, Registry } from 'prom-client';
import { ApiError } from '../errors.ts';

/** The library's own 10 ms keep an idle process awake: they use 6 ms of a processor per second, and this value 0.6 ms. */
const loopSampleMs = 100;

/** Creates the registry of one process's metrics, including Node's own. A label never holds a key, an account or a request id. */
export function createRegistry(): Registry {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry, eventLoopMonitoringPrecision: loopSampleMs });
  return registry;
}

/** Buckets in seconds, from a millisecond to the longest life of a request. */
export const durationBuckets = [
  0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600,
];

export type LimitMetrics = ReturnType<typeof createLimitMetrics>;

/** Metrics of both sides: usually the worker ends a request, and the ingress ends one whose worker died. */
export function createLimitMetrics(registry: Registry) {
  const registers = [registry];
  return {
    settled: new Counter({
      name: 'svc_requests_settled_total',
      help: 'Requests that were ended and charged, by outcome, and whether the backend reported their tokens',
      labelNames: ['endpoint', 'outcome', 'counted'],
      registers,
    }),
    settleFailures: new Counter({
      name: 'svc_settle_failures_total',
      help: 'Requests that were not settled: refused (another run had begun, or they had ended), lost (their lease had expired), or error',
      labelNames: ['endpoint', 'reason'],
      registers,
    }),
    refusedFields: new Counter({
      name: 'svc_refused_fields_total',
      help: 'Requests and lines of batches refused for a field, tool or address that the plan file does not allow, by field',
      labelNames: ['endpoint', 'field'],
      registers,
    }),
  };
}

type RefusedFields = { refusedFields: Counter<'endpoint' | 'field'> };

/** Counts a refusal once for each field that the plan file does not allow. Ignores any other error. */
export function countRefusedFields({ refusedFields }: RefusedFields, endpoint: string, error: unknown): void {
  if (!(error instanceof ApiError)) return;
  const fields = error.issues.flatMap(({ refused }) => refused ?? []);
  for (const field of new Set(fields)) refusedFields.inc({ endpoint, field });
}
