import type { FleetView } from '../../ingress/routes/fleet.ts';

/** A fleet of one worker and one backend that is well, and its parts. */
const process = { id: 'p', generation: 'aaa', started_at: '2026-03-01T09:00:00.000Z' };

export const health: FleetView['backends'][number]['models'][number] = {
  ...{ model: 'small-chat', breakers: { closed: 2, 'half-open': 0, open: 0 } },
  ...{ first_token_ms: 100, answered: 90, failed: 0, prompt_tokens: 0, cached_tokens: 0, suspects: 0 },
  ...{ failing_since: null, last_failure: null },
};

export const backend: FleetView['backends'][number] = {
  ...{ backend: 'a', location: 'on-prem', calls: 3, limit: 8, per_worker: false, shares: 8, models: [health] },
  ...{ paused: null, pauses: [], weight: 1 },
};

export const queue = { model: 'small-chat', queued: { interactive: 0, batch: 0 }, queue_max: 2_000, oldest_ms: 0 };

export const fleetView: FleetView = {
  object: 'fleet',
  ingresses: [{ ...process, connections: 1, waiting: 0 }],
  workers: [{ ...process, pools: ['default'], running: 0, waiting: 0 }],
  pools: [{ pool: 'default', workers: 1, models: [queue] }],
  backends: [backend],
};

/** A call that has failed. */
export const refused: NonNullable<(typeof health)['last_failure']> = {
  ...{ at: '2026-03-01T10:00:00.000Z', request: 'req_1', outcome: 'failed', cause: 'connection refused', status: null },
  ...{ rule: 'no-connection', address: '10.0.3.11:8000' },
};
