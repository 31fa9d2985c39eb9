import { Counter, Gauge, Histogram, type Registry } from 'prom-client';
import { createLimitMetrics, durationBuckets, observeGauge } from '../shared/process/metrics.ts';

export type IngressMetrics = ReturnType<typeof createIngressMetrics>;

/** Read at each scrape. */
type Sources = {
  waiting: () => number;
  depths: () => Promise<{ pool: string; model: string; lane: string; jobs: number }[]>;
  oldest: () => { pool: string; model: string; ageMs: number }[];
  poolWorkers: () => Promise<{ pool: string; workers: number }[]>;
  bytesWaiting: () => number;
  bodyBytesHeld: () => number;
  issuerKeysAgeMs: () => number | undefined;
};

export function createIngressMetrics(registry: Registry) {
  const registers = [registry];
  return {
    requests: new Counter({
      name: 'svc_http_requests_total',
      help: 'Requests by method, route and status. The status is "aborted" if the client disconnected before its response was complete',
      labelNames: ['method', 'route', 'status'],
      registers,
    }),
    requestDuration: new Histogram({
      name: 'svc_http_request_duration_seconds',
      help: 'Time from the request line to the last byte of the response',
      labelNames: ['route'],
      buckets: durationBuckets,
      registers,
    }),
    ...createInferenceMetrics(registry),
    admissions: new Counter({
      name: 'svc_admissions_total',
      help: 'Inference requests by the outcome of their admission, and the limit that refused them, if any',
      labelNames: ['endpoint', 'outcome', 'limit'],
      registers,
    }),
    queueRefusals: new Counter({
      name: 'svc_queue_refusals_total',
      help: 'Requests refused because too many jobs wait for their model, or too many bytes in this ingress, by reason',
      labelNames: ['pool', 'model', 'endpoint', 'reason'],
      registers,
    }),
    bodyRefusals: new Counter({
      name: 'svc_body_refusals_total',
      help: 'Requests refused, or disconnected as too slow, because this ingress held BODY_BUDGET_BYTES of bodies',
      registers,
    }),
    connectionsRefused: new Counter({
      name: 'svc_connections_refused_total',
      help: 'Connections closed at once because they exceeded CONNECTIONS_MAX, or CONNECTIONS_PER_ADDRESS_MAX of their address',
      registers,
    }),
    ...createLimitMetrics(registry),
    observeConnections: (open: () => number) => observeConnections(registry, open),
    observe(sources: Sources): void {
      observeQueues(registry, sources);
      observeHeld(registry, sources);
      observeIssuerKeys(registry, sources);
    },
  };
}

/** Buckets in seconds: a token of a fast model takes a few milliseconds, and a stream that stalls more than a second. */
const perTokenBuckets = [0.0025, 0.005, 0.01, 0.015, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.25, 0.5, 1, 2.5];
/** Buckets in seconds, up to the usual `first_token_ms` and a long wait in the queue. */
const firstTokenBuckets = [0.025, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1, 1.5, 2, 3, 5, 7.5, 10, 15, 30, 60, 120];

/** What clients see of inference requests. The model is `none` if a request was refused before its model was known. */
function createInferenceMetrics(registry: Registry) {
  const registers = [registry];
  return {
    inferenceRequests: new Counter({
      name: 'svc_inference_requests_total',
      help: 'Inference requests by model, endpoint and outcome: completed, repeated, refused (4xx), failed or disconnected',
      labelNames: ['model', 'endpoint', 'outcome'],
      registers,
    }),
    firstToken: new Histogram({
      name: 'svc_first_token_seconds',
      help: 'Time from the request line to the first text of a stream for the client',
      labelNames: ['model', 'endpoint'],
      buckets: firstTokenBuckets,
      registers,
    }),
    timePerOutputToken: new Histogram({
      name: 'svc_time_per_output_token_seconds',
      help: 'Time from the first to the last text of a complete stream, divided by its tokens after the first',
      labelNames: ['model', 'endpoint'],
      buckets: perTokenBuckets,
      registers,
    }),
  };
}

function observeConnections(registry: Registry, open: () => number): void {
  observeGauge(registry, { name: 'svc_connections', help: 'Open connections of clients', read: open });
}

/** While Redis is unavailable, depths and workers are left out. */
function observeQueues(registry: Registry, { depths, oldest, poolWorkers }: Sources): void {
  const registers = [registry];
  new Gauge({
    name: 'svc_queue_depth',
    help: 'Jobs that wait in the queue of a model. Every ingress reports the same value',
    labelNames: ['pool', 'model', 'lane'],
    registers,
    async collect() {
      this.reset();
      for (const { jobs, ...labels } of await depths().catch(() => [])) this.set(labels, jobs);
    },
  });
  new Gauge({
    name: 'svc_queue_oldest_age_seconds',
    help: 'Age of the oldest queued request of this ingress that no worker has started; 0 if there is none',
    labelNames: ['pool', 'model'],
    registers,
    collect() {
      this.reset(); // models come and go with the plan file
      for (const { ageMs, ...labels } of oldest()) this.set(labels, ageMs / 1_000);
    },
  });
  new Gauge({
    name: 'svc_pool_workers',
    help: 'Workers of a pool that are alive and take jobs. Every ingress reports the same value',
    labelNames: ['pool'],
    registers,
    async collect() {
      this.reset();
      for (const { pool, workers } of await poolWorkers().catch(() => [])) this.set({ pool }, workers);
    },
  });
}

function observeHeld(registry: Registry, { waiting, bytesWaiting, bodyBytesHeld }: Sources): void {
  observeGauge(registry, {
    name: 'svc_requests_waiting',
    help: 'Requests of this ingress that wait for their reply',
    read: waiting,
  });
  observeGauge(registry, {
    name: 'svc_queue_bytes_waiting',
    help: 'Bytes of the payloads of jobs of this ingress that no worker has started',
    read: bytesWaiting,
  });
  observeGauge(registry, {
    name: 'svc_body_bytes_held',
    help: 'Bytes of bodies that this ingress holds because they are still arriving or not yet queued',
    read: bodyBytesHeld,
  });
}

function observeIssuerKeys(registry: Registry, { issuerKeysAgeMs }: Sources): void {
  observeGauge(registry, {
    name: 'svc_issuer_keys_age_seconds',
    help: 'Age of the keys of the identity provider, which are trusted for a day; absent until they have been fetched',
    read() {
      const ageMs = issuerKeysAgeMs();
      return ageMs === undefined ? undefined : ageMs / 1_000;
    },
  });
}
