import { collectDefaultMetrics, Registry } from 'prom-client';

/** Metrics of one process, Node's own among them. A label never holds a key, an account or a request id. */
export function createRegistry(): Registry {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  return registry;
}

/** Buckets in seconds, for anything between a millisecond and a request's longest life. */
export const durationBuckets = [
  0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600,
];
