import { Counter, Gauge, Histogram, type Registry } from 'prom-client';
import { createLimitMetrics, durationBuckets } from '../shared/process/metrics.ts';

export type IngressMetrics = ReturnType<typeof createIngressMetrics>;

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
  return {
    requests: new Counter({
      name: 'svc_http_requests_total',
      help: 'Requests by route and status; "aborted" when the client left before its answer was written',
      labelNames: ['method', 'route', 'status'],
      registers: [registry],
    }),
    requestDuration: new Histogram({
      name: 'svc_http_request_duration_seconds',
      help: 'From the request line to the last byte of the answer',
      labelNames: ['route'],
      buckets: durationBuckets,
      registers: [registry],
    }),
    admissions: new Counter({
      name: 'svc_admissions_total',
      help: 'Inference requests by what became of them at admission, and by the limit that held some up',
      labelNames: ['outcome', 'limit'],
      registers: [registry],
    }),
    queueRefusals: new Counter({
      name: 'svc_queue_refusals_total',
      help: 'Requests that were refused because too many jobs waited for their model, or too many bytes in this ingress',
      labelNames: ['pool', 'model', 'reason'],
      registers: [registry],
    }),
    bodyRefusals: new Counter({
      name: 'svc_body_refusals_total',
      help: 'Requests that were refused, or cut off because they were slow, because this ingress held BODY_BUDGET_BYTES of bodies',
      registers: [registry],
    }),
    connectionsRefused: new Counter({
      name: 'svc_connections_refused_total',
      help: 'Connections that were closed at once: beyond CONNECTIONS_MAX, or beyond CONNECTIONS_PER_ADDRESS_MAX of an address',
      registers: [registry],
    }),
    ...createLimitMetrics(registry),
    observeConnections(open: () => number): void {
      new Gauge({
        name: 'svc_connections',
        help: 'Connections of clients that are open',
        registers: [registry],
        collect() {
          this.set(open());
        },
      });
    },
    /** Read when they are scraped; a Redis that does not answer leaves the depth out and the rest as it is. */
    observe({ waiting, depths, oldest, poolWorkers, bytesWaiting, bodyBytesHeld, issuerKeysAgeMs }: Sources): void {
      new Gauge({
        name: 'svc_requests_waiting',
        help: 'Requests of this ingress that wait for their reply',
        registers: [registry],
        collect() {
          this.set(waiting());
        },
      });
      new Gauge({
        name: 'svc_queue_depth',
        help: 'Jobs that wait in the queue of a model; every ingress says the same',
        labelNames: ['pool', 'model', 'lane'],
        registers: [registry],
        async collect() {
          this.reset();
          for (const { jobs, ...labels } of await depths().catch(() => [])) this.set(labels, jobs);
        },
      });
      new Gauge({
        name: 'svc_queue_oldest_age_seconds',
        help: 'Since the oldest request of this ingress that no worker has started was queued; 0 if there is none',
        labelNames: ['pool', 'model'],
        registers: [registry],
        collect() {
          for (const { ageMs, ...labels } of oldest()) this.set(labels, ageMs / 1_000);
        },
      });
      new Gauge({
        name: 'svc_pool_workers',
        help: 'Workers of a pool that are alive and take jobs; every ingress says the same',
        labelNames: ['pool'],
        registers: [registry],
        async collect() {
          this.reset();
          for (const { pool, workers } of await poolWorkers().catch(() => [])) this.set({ pool }, workers);
        },
      });
      new Gauge({
        name: 'svc_queue_bytes_waiting',
        help: 'Bytes of bodies of this ingress that no worker has started',
        registers: [registry],
        collect() {
          this.set(bytesWaiting());
        },
      });
      new Gauge({
        name: 'svc_body_bytes_held',
        help: 'Bytes of bodies that this ingress holds because they arrive or are not queued yet',
        registers: [registry],
        collect() {
          this.set(bodyBytesHeld());
        },
      });
      new Gauge({
        name: 'svc_issuer_keys_age_seconds',
        help: 'Since the identity provider last gave its keys, which are trusted for a day; left out until it has',
        registers: [registry],
        collect() {
          const ageMs = issuerKeysAgeMs();
          this.remove(); // a gauge without a value says 0, which is the age of fresh ones
          if (ageMs !== undefined) this.set(ageMs / 1_000);
        },
      });
    },
  };
}
