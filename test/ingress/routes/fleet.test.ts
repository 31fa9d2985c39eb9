import test from 'ava';
import Koa from 'koa';
import type { RequestState } from '../../../ingress/request-state.ts';
import type { ProcessLoad } from '../../../shared/fleet/note-process.ts';
import type { PlanFile } from '../../../shared/plan-file/plan-file.ts';
import type { AccountStore } from '../../../shared/store/records/account-store.ts';
import { stageOf } from '../../support/api-routes.ts';
import { serveApp } from '../../support/serve-app.ts';

const location = 'cloud';
const backends = { a: { location, requestsAtOnce: 9 }, learned: { location }, unlimited: { location } };
const planFile = { backends, models: {} } as unknown as PlanFile; // all that the route reads

const failure = {
  ...{ requestId: 'req_1', outcome: 'failed', cause: 'connection refused' },
  ...{ rule: 'no-connection', address: '10.0.0.1:8000' },
};

const worker = (calls: number): ProcessLoad => ({
  ...{ kind: 'worker', running: calls, waiting: 0 },
  backends: [
    { backend: 'a', calls, share: calls },
    { backend: 'learned', calls, share: 3 },
    { backend: 'unlimited', calls },
  ],
  health: [
    {
      backend: 'a',
      model: 'm',
      breaker: 'closed',
      answered: calls,
      failed: 0,
      promptTokens: 100 * calls,
      cachedTokens: 75 * calls,
      suspects: calls,
      failingSince: 60_000 * calls,
      lastFailure: { ...failure, at: calls },
    },
  ],
  pauses: [
    { backend: 'a', kind: 'busy', leftMs: 100 * calls },
    { backend: 'a', kind: 'operator', leftMs: 60_000 },
  ],
});

test('the load of a process that has left is not counted', async (t) => {
  const app = new Koa<RequestState>();
  app.use(async (ctx, next) => {
    ctx.state.planFile = planFile;
    await next();
  });
  const here = { kind: 'worker' as const, generation: 'g', pools: ['default'], issues: 0, startedAt: 1 };
  const fleet = {
    processes: () => [
      { ...here, id: 'one' },
      { ...here, id: 'two', startedAt: 2 },
    ],
    loads: async () => new Map([['one', worker(2)] as const, ['gone', worker(1)] as const]),
    depths: async () => [],
    poolWorkers: async () => [{ pool: 'default', workers: 2 }],
  };
  const pause = { since: 0, until: 60_000, by: 'user:olga', reason: null };
  const findNames = async (accounts: readonly string[]) =>
    new Map(accounts.map((account) => [account, 'Olga Operator']));
  const store = { accounts: { findNames } as unknown as AccountStore };
  const backendPauses = { read: async () => new Map([['a', pause]]) };
  app.use(stageOf('retrieveFleet', { store, operators: { fleet, queueDepthMax: 2_000, backendPauses } }));
  await using served = await serveApp(app);
  const { workers = [], backends = [] } = (await (await fetch(served.url)).json()) as Record<string, object[]>;
  t.like(workers, [
    { id: 'one', running: 2 },
    { id: 'two', running: null },
  ]);
  t.like(backends[0], {
    calls: 2,
    shares: 2,
    weight: 1,
    models: [
      {
        ...{ answered: 2, suspects: 2, prompt_tokens: 200, cached_tokens: 150, breakers: { closed: 1 } },
        failing_since: '1970-01-01T00:02:00.000Z',
        last_failure: {
          ...{ at: '1970-01-01T00:00:00.002Z', request: 'req_1', outcome: 'failed', cause: 'connection refused' },
          ...{ status: null, rule: 'no-connection', address: '10.0.0.1:8000' },
        },
      },
    ],
  });
  t.like(backends[0], {
    pauses: [{ kind: 'busy', workers: 1, left_ms: 200 }],
    paused: {
      since: '1970-01-01T00:00:00.000Z',
      ends_at: '1970-01-01T00:01:00.000Z',
      by: 'user:olga',
      by_name: 'Olga Operator',
      reason: null,
    },
  });
  t.like(backends[1], { backend: 'learned', limit: null, shares: 3 });
  t.like(backends[2], { backend: 'unlimited', limit: null, shares: null });
});
