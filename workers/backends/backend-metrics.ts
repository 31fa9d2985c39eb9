import { Counter, Gauge, type Registry } from 'prom-client';
import type { BackendSlots } from './backend-slots.ts';
import type { Preference } from './prefer-backend.ts';

const breakerValues = { closed: 0, 'half-open': 1, open: 2 };

export type BackendMetrics = ReturnType<typeof createBackendMetrics>;

export function createBackendMetrics(registry: Registry) {
  const breakerOpened = new Counter({
    name: 'svc_backend_breaker_opened_total',
    help: 'How often the breaker of a backend and model has opened',
    labelNames: ['backend', 'model'],
    registers: [registry],
  });
  const choices = new Counter({
    name: 'svc_affinity_choices_total',
    help: 'Requests with keys of their prompt, by the depth of the key that chose their backend: 1 is the deepest; none: no key did',
    labelNames: ['model', 'depth'],
    registers: [registry],
  });
  const misses = new Counter({
    name: 'svc_affinity_misses_total',
    help: 'Requests that did not get the first choice of their deepest key, by why: load (it has too many calls), room (the share of the worker is in use) or renewal (its share was being renewed)',
    labelNames: ['backend', 'reason'],
    registers: [registry],
  });
  return {
    breakerOpened,
    notePreference({ choice, missed }: Preference, model: string): void {
      choices.inc({ model, depth: choice?.depth ?? 'none' });
      if (missed !== undefined) misses.inc({ backend: missed.name, reason: missed.reason });
    },
    /** Registers the gauges that are read at each scrape. */
    observeBackends(slots: BackendSlots): void {
      observeBreakers(registry, slots, breakerOpened);
      observeSuspects(registry, slots);
      observeLoad(registry, slots);
      observePauses(registry, slots);
    },
  };
}

type OpenCounter = BackendMetrics['breakerOpened'];

function observeBreakers(registry: Registry, { breakerStatuses }: BackendSlots, opened: OpenCounter): void {
  new Gauge({
    name: 'svc_backend_breaker_state',
    help: 'Breaker state in this worker: 0 closed, 1 half-open (one probe call), 2 open (not called)',
    labelNames: ['backend', 'model'],
    registers: [registry],
    collect() {
      this.reset(); // backends come and go with the plan file
      for (const { backend, model, breaker } of breakerStatuses()) {
        this.set({ backend, model }, breakerValues[breaker]);
        opened.inc({ backend, model }, 0); // a series that begins with its first event hides that event from alerts
      }
    },
  });
}

function observeSuspects(registry: Registry, { seenHealth }: BackendSlots): void {
  new Gauge({
    name: 'svc_backend_suspects',
    help: 'Accounts whose requests failed at a backend, and may be the reason: they ask it last, for half a minute; 0 is left out',
    labelNames: ['backend', 'model'],
    registers: [registry],
    collect() {
      this.reset();
      for (const { backend, model, suspects } of seenHealth()) if (suspects > 0) this.set({ backend, model }, suspects);
    },
  });
}

function observeLoad(registry: Registry, { load, waiting }: BackendSlots): void {
  const observe = (name: string, help: string, value: (load: Load) => number | undefined) =>
    new Gauge({
      name,
      help,
      labelNames: ['backend'],
      registers: [registry],
      collect() {
        this.reset();
        for (const each of load()) {
          const current = value(each);
          if (current !== undefined) this.set({ backend: each.backend }, current);
        }
      },
    });
  observe('svc_backend_calls', 'Calls of this worker that are in flight', ({ calls }) => calls);
  observe(
    'svc_backend_limit',
    'requests_at_once of a backend: for the whole fleet, or for each worker if per_worker is set; left out if there is no limit',
    ({ limit }) => limit,
  );
  observe(
    'svc_backend_share',
    'Concurrent calls that this worker may make: its part of the limit, or of what a busy backend has room for',
    ({ share }) => share,
  );
  new Gauge({
    name: 'svc_jobs_waiting_for_backend',
    help: 'Jobs in progress in this worker that wait for a slot, because a backend failed, was busy or loads its model',
    registers: [registry],
    collect() {
      this.set(waiting());
    },
  });
}

function observePauses(registry: Registry, { pauses }: BackendSlots): void {
  new Gauge({
    name: 'svc_backend_paused',
    help: 'Backends that this worker does not call for a while, by why: busy, loading, account (its account there is refused) or operator; 1 while it lasts',
    labelNames: ['backend', 'kind'],
    registers: [registry],
    collect() {
      this.reset();
      for (const { backend, kind } of pauses.all()) this.set({ backend, kind }, 1);
    },
  });
}

type Load = ReturnType<BackendSlots['load']>[number];
