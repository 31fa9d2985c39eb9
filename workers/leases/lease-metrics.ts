import { Counter, type Registry } from 'prom-client';
import { observeGauge } from '../../shared/process/observe-gauge.ts';

export type LeaseMetrics = ReturnType<typeof createLeaseMetrics>;

export function createLeaseMetrics(registry: Registry) {
  return {
    leasesExpired: new Counter({
      name: 'svc_leases_expired_total',
      help: 'Leases that expired without being ended or renewed',
      registers: [registry],
    }),
    /** `count` is called at each scrape; undefined while Redis does not answer. */
    observeLeases(count: () => Promise<number | undefined>): void {
      observeGauge(registry, {
        name: 'svc_leases_held',
        help: 'Requests that hold a lease in the partitions of this worker. The sum over all workers is the total',
        read: count,
      });
    },
  };
}
