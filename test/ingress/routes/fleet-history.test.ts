import test from 'ava';
import Koa from 'koa';
import type { RequestState } from '../../../ingress/request-state.ts';
import type { FleetHistory } from '../../../ingress/routes/fleet-history.ts';
import { createFleetCounts, type TakenCounts } from '../../../shared/fleet/fleet-counts.ts';
import { createNoteProcess, type ProcessLoad } from '../../../shared/fleet/note-process.ts';
import { fleetCountsKey } from '../../../shared/redis/keys.ts';
import { createCallHistory } from '../../../workers/backends/call-history.ts';
import { stageOf } from '../../support/api-routes.ts';
import { openRedisDatabase } from '../../support/private-redis.ts';
import { serveApp } from '../../support/serve-app.ts';

const note = { id: 'w', kind: 'worker', generation: 'aaa', startedAt: 1 } as const;
const load: ProcessLoad = { kind: 'ingress', connections: 0, waiting: 0, oldest: [] };

test('what all processes have counted comes in steps of time, and each step expires', async (t) => {
  await using own = await openRedisDatabase();
  const fleet = createNoteProcess(own.redis);
  const [history, ingress] = [createCallHistory(), createFleetCounts()];
  const called = { backend: 'onprem-a', model: 'small-chat' };
  for (const outcome of ['answered', 'over_limit', 'refused', 'failed', 'busy', 'stopped'])
    history.noteEnd({ ...called, requestId: 'req_1', end: { outcome } });
  for (const ms of [60, 70, 60_000]) history.noteFirstToken({ ...called, ms });
  for (const code of ['completed', 'completed', 'rate_limit_exceeded', 'disconnected']) ingress.add(['request', code]);
  for (const ms of [40, 90, 20]) ingress.raise(['longest', 'wait'], ms);

  const before = Date.now();
  await fleet.note(note, load, history.counts.take());
  await fleet.note(note, load, ingress.take());
  ingress.add(['request', 'completed']);
  ingress.raise(['longest', 'wait'], 10);
  await fleet.note(note, load, ingress.take());
  await fleet.note(note, load, ingress.take());

  const ask = async (query: string): Promise<FleetHistory> => {
    const app = new Koa<RequestState>();
    app.use((ctx, next) => {
      ctx.state.now = Date.now();
      return next();
    });
    app.use(stageOf('retrieveFleetHistory', { operators: { fleet: { readCounts: fleet.counts } } }));
    await using served = await serveApp(app);
    return (await (await fetch(`${served.url}?${query}`)).json()) as FleetHistory;
  };
  for (const step of ['minutes', 'hours']) {
    const { data, step_seconds: seconds } = await ask(`step=${step}&steps=2`);
    t.is(data.length, 2);
    t.is(Date.parse(data[1]?.start ?? '') - Date.parse(data[0]?.start ?? ''), seconds * 1_000);
    // At the turn of a step, a part is in the one before.
    const found = data.filter(({ requests }) => requests > 0);
    t.is(
      found.reduce((sum, { requests }) => sum + requests, 0),
      5,
    );
    if (Math.floor(before / 300_000) !== Math.floor(Date.now() / 300_000)) continue;
    t.like(data[1], { requests: 5, errors: { rate_limit_exceeded: 1 }, longest_wait_ms: 90 });
    t.deepEqual(data[1]?.backends, [{ ...called, answered: 3, failed: 1, first_token_ms: { p50: 88, p95: 30_000 } }]);
  }
  const keys = await own.redis.keys(fleetCountsKey('minutes', 0).replace('minutes:0', '*').replaceAll(/[{}]/g, '?'));
  t.true(keys.length >= 2);
  for (const key of keys) t.true((await own.redis.pttl(key)) > 0, key);
});

test('no step has counts before anything was counted, and a wrong number of steps is refused', async (t) => {
  const app = new Koa<RequestState>();
  app.use((ctx, next) => {
    ctx.state.now = Date.parse('2026-12-05T10:07:00Z');
    return next();
  });
  app.use(stageOf('retrieveFleetHistory', { operators: { fleet: { readCounts: async () => [] } } }));
  app.on('error', () => {});
  await using served = await serveApp(app);
  const { data } = (await (await fetch(served.url)).json()) as FleetHistory;
  t.is(data.length, 12);
  t.deepEqual(data.at(-1), {
    start: '2026-12-05T10:05:00.000Z',
    requests: 0,
    errors: {},
    longest_wait_ms: 0,
    first_token_ms: null,
    backends: [],
  });
  for (const query of ['steps=0', 'steps=37', 'step=hours&steps=201', 'step=days', 'steps=1.5', 'end=yesterday'])
    t.not((await fetch(`${served.url}?${query}`)).status, 200, query);
  for (const query of ['steps=36', 'step=hours&steps=200'])
    t.is((await fetch(`${served.url}?${query}`)).status, 200, query);
});

test('earlier steps are read with an end: the last step begins before it', async (t) => {
  const asked: (readonly number[])[] = [];
  const app = new Koa<RequestState>();
  app.use((ctx, next) => {
    ctx.state.now = Date.parse('2026-12-05T10:07:00Z');
    return next();
  });
  const readCounts = async (_step: string, starts: readonly number[]) => {
    asked.push(starts);
    return [];
  };
  app.use(stageOf('retrieveFleetHistory', { operators: { fleet: { readCounts } } }));
  await using served = await serveApp(app);
  const startsOf = async (end: string) => {
    const answer = await fetch(`${served.url}?step=hours&steps=2&end=${end}`);
    return ((await answer.json()) as FleetHistory).data.map(({ start }) => start.slice(0, 16));
  };
  t.deepEqual(await startsOf('2026-11-05T10:00:00Z'), ['2026-11-05T08:00', '2026-11-05T09:00']);
  t.deepEqual(await startsOf('2026-11-05T10:00:00.001Z'), ['2026-11-05T09:00', '2026-11-05T10:00']);
  t.deepEqual(await startsOf('2027-01-01T00:00:00Z'), ['2026-12-05T09:00', '2026-12-05T10:00']);
  t.deepEqual(asked[0], [Date.parse('2026-11-05T08:00:00Z'), Date.parse('2026-11-05T09:00:00Z')]);
});

test('the total is of all steps: sums, the longest wait, and percentiles of all first tokens', async (t) => {
  const called = { backend: 'onprem-a', model: 'small-chat' };
  const [first, second] = [createCallHistory(), createCallHistory()];
  const [ofFirst, ofSecond] = [createFleetCounts(), createFleetCounts()];
  for (const history of [first, second]) history.noteEnd({ ...called, requestId: 'req_1', end: { outcome: 'failed' } });
  for (let calls = 0; calls < 19; calls += 1) first.noteFirstToken({ ...called, ms: 60 });
  second.noteFirstToken({ ...called, ms: 60_000 });
  for (const counts of [ofFirst, ofSecond]) counts.add(['request', 'UPSTREAMS_EXHAUSTED']);
  ofFirst.raise(['longest', 'wait'], 90);
  ofSecond.raise(['longest', 'wait'], 40);
  const steps = [
    [first.counts, ofFirst],
    [second.counts, ofSecond],
  ].map((counts) => countsIn(counts.map((each) => each.take())));
  const app = new Koa<RequestState>();
  app.use((ctx, next) => {
    ctx.state.now = Date.parse('2026-12-05T10:07:00Z');
    return next();
  });
  app.use(stageOf('retrieveFleetHistory', { operators: { fleet: { readCounts: async () => steps } } }));
  await using served = await serveApp(app);
  const { total } = (await (await fetch(`${served.url}?steps=2`)).json()) as FleetHistory;
  const firstTokens = { p50: 76, p95: 100 };
  t.deepEqual(total, {
    requests: 2,
    errors: { UPSTREAMS_EXHAUSTED: 2 },
    longest_wait_ms: 90,
    first_token_ms: firstTokens,
    backends: [{ ...called, answered: 0, failed: 2, first_token_ms: firstTokens }],
  });
});

/** The counts of a step, as the store has them. */
function countsIn(taken: readonly TakenCounts[]): Map<string, number> {
  const flat = taken.flatMap(({ sums, highest }) => [...sums, ...highest]);
  return new Map(flat.flatMap((name, index) => (index % 2 === 0 ? [[name, Number(flat[index + 1])] as const] : [])));
}
