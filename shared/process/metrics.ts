import { Counter, collectDefaultMetrics, Registry } from 'prom-client';
import { ApiError } from '../errors.ts';

/** The library's own 10 ms keep an idle process awake: 6 ms of a processor a second, and 0.6 with this. */
const loopSampleMs = 100;

/** Metrics of one process, Node's own among them. A label never holds a key, an account or a request id. */
export function createRegistry(): Registry {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry, eventLoopMonitoringPrecision: loopSampleMs });
  return registry;
}

/** Buckets in seconds, for anything between a millisecond and a request's longest life. */
export const durationBuckets = [
  0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600,
];

export type LimitMetrics = ReturnType<typeof createLimitMetrics>;

/** What either side can come to do: the worker ends a request, as a rule, and the ingress one whose worker died. */
export function createLimitMetrics(registry: Registry) {
  const registers = [registry];
  return {
    settled: new Counter({
      name: 'svc_requests_settled_total',
      help: 'Requests that were ended and charged, by outcome, and whether the backend reported their tokens',
      labelNames: ['outcome', 'counted'],
      registers,
    }),
    settleFailures: new Counter({
      name: 'svc_settle_failures_total',
      help: 'Requests that were not settled: refused (another run had begun, or they had ended), lost (their lease had expired), or error',
      labelNames: ['reason'],
      registers,
    }),
    refusedFields: new Counter({
      name: 'svc_refused_fields_total',
      help: 'Requests and lines of batches refused for a field, tool or address that the plan file does not allow, by field',
      labelNames: ['field'],
      registers,
    }),
  };
}

/** Counts a refusal once for each field that the plan file does not allow; nothing for any other error. */
export function countRefusedFields({ refusedFields }: { refusedFields: Counter<'field'> }, error: unknown): void {
  if (!(error instanceof ApiError)) return;
  const fields = error.faults.flatMap(({ refused }) => refused ?? []);
  for (const field of new Set(fields)) refusedFields.inc({ field });
}
