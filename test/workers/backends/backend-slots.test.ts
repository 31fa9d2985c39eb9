import { setTimeout as sleep } from 'node:timers/promises';
import test from 'ava';
import { Registry } from 'prom-client';
import { createBackendMetrics } from '../../../workers/backends/backend-metrics.ts';
import { type ChangedPlan, openSlotsSide as open, waits } from '../../support/slots-side.ts';

test('the least loaded backend is taken first, and a tried one is not taken again', async (t) => {
  const { take } = open(t);
  const [first, second, third] = [await take(), await take(), await take({ tried: new Set(['a']) })];
  t.deepEqual([first.name, second.name, third.name], ['a', 'b', 'b']);
  t.is((await take({ tried: new Set(['a', 'b']) })).name, 'cloud');
});

test("calls of all models count against a backend's limit, and one more finds it full", async (t) => {
  const { ask, take } = open(t, { requestsAtOnce: 2 });
  await take({ model: 'only-a' });
  await take({ model: 'only-a' });
  t.deepEqual(await ask({ model: 'only-a' }), { outcome: 'late' });
  t.is((await take()).name, 'b');
});

test('a larger share is requested of the full backends of the model, and of no others', async (t) => {
  const { ask, take, hungry } = open(t, { requestsAtOnce: 1 });
  await take({ model: 'only-a' });
  t.deepEqual(hungry, []);
  await ask({ model: 'only-a' });
  t.deepEqual(hungry, ['a']);
});

test('if the on-prem replica is full, the cloud is taken', async (t) => {
  const { take } = open(t, { requestsAtOnce: 1 });
  t.deepEqual([(await take()).name, (await take()).name, (await take()).name], ['a', 'b', 'cloud']);
});

test('waiting jobs get free slots in the order of asking', async (t) => {
  const { slots, ask, take } = open(t, { requestsAtOnce: 1 });
  const held = await take({ model: 'only-a' });
  const got: string[] = [];
  const waiting = ['first', 'second'].map(async (name) => {
    const slot = await take({ model: 'only-a', ...waits });
    got.push(name);
    return slot;
  });
  t.is(slots.waiting(), 2);
  held.end({ outcome: 'answered' });
  t.deepEqual(await ask({ model: 'only-a' }), { outcome: 'late' }, 'a new job does not overtake them');
  (await waiting[0])?.end({ outcome: 'answered' });
  await waiting[1];
  t.deepEqual(got, ['first', 'second']);
  t.is(slots.waiting(), 0);
});

test('a job that waits for its backend does not get a slot of another backend', async (t) => {
  const { slots, take } = open(t, { requestsAtOnce: 1 });
  const [a, b] = [await take(), await take()];
  const waiting = take({ model: 'only-a', ...waits });
  b.end({ outcome: 'answered' });
  t.is(slots.waiting(), 1);
  a.end({ outcome: 'answered' });
  t.is((await waiting).name, 'a');
});

test('waiting ends when the time is over, and when it is aborted', async (t) => {
  const { slots, ask, take } = open(t, { requestsAtOnce: 1 });
  await take({ model: 'only-a' });
  t.deepEqual(await ask({ model: 'only-a', waitMs: 1 }), { outcome: 'late' });
  const leaving = new AbortController();
  const waiting = ask({ model: 'only-a', ...waits, signal: leaving.signal });
  leaving.abort();
  t.deepEqual(await waiting, { outcome: 'late' });
  t.deepEqual(await ask({ model: 'only-a', ...waits, signal: leaving.signal }), { outcome: 'late' });
  t.is(slots.waiting(), 0);
});

test('of two idle backends the one with the recently faster first tokens is taken', async (t) => {
  const { take, pass } = open(t);
  const [a, b] = [await take(), await take()];
  pass(10);
  b.firstToken();
  pass(10);
  a.firstToken();
  for (const slot of [a, b]) slot.end({ outcome: 'answered' });
  for (let calls = 0; calls < 3; calls++) {
    const slot = await take();
    t.is(slot.name, 'b');
    slot.end({ outcome: 'answered' });
  }
  pass(60_000);
  t.is((await take()).name, 'a', 'old samples are ignored');
});

test('a backend that has just failed comes after one that answers, even slowly, until it answers itself', async (t) => {
  const { take, pass } = open(t);
  const [a, b] = [await take(), await take()];
  a.end({ outcome: 'failed', evidence: 'backend' });
  pass(9_000);
  b.firstToken();
  b.end({ outcome: 'answered' });
  const [first, second] = [await take(), await take()];
  t.deepEqual([first.name, second.name], ['b', 'a']);
  pass(50);
  second.firstToken();
  for (const slot of [first, second]) slot.end({ outcome: 'answered' });
  t.is((await take()).name, 'a');
});

test('if time has made room, waiting jobs come before a new one', async (t) => {
  const { ask, take, pass } = open(t, { requestsAtOnce: 1 });
  const cloud = await take({ tried: new Set(['a', 'b']) });
  const held = await take({ model: 'only-a' });
  cloud.end({ outcome: 'busy', retryAfterMs: 60_000 });
  const tried = new Set(['b']);
  const waiting = ask({ tried, ...waits });
  pass(60_000);
  t.deepEqual(await ask({ tried }), { outcome: 'late' });
  const taken = await waiting;
  t.is(taken.outcome === 'slot' && taken.slot.name, 'cloud');
  held.end({ outcome: 'answered' });
});

test('a slot that is ended twice makes room once', async (t) => {
  const { slots, ask, take } = open(t, { requestsAtOnce: 2 });
  const [first] = [await take({ model: 'only-a' }), await take({ model: 'only-a' })];
  first.end({ outcome: 'answered' });
  first.end({ outcome: 'failed', evidence: 'backend' });
  t.deepEqual(slots.load()[0], { backend: 'a', calls: 1, limit: 2, share: 2 });
  await take({ model: 'only-a' });
  t.deepEqual(await ask({ model: 'only-a' }), { outcome: 'late' });
});

test('a model of another pool, and one that does not exist, have no backends', async (t) => {
  const { slots, ask } = open(t);
  for (const model of ['large-chat', 'constructor']) {
    t.deepEqual(await ask({ model, ...waits }), { outcome: 'refused' });
    t.deepEqual(slots.namesOf(model), []);
  }
  t.deepEqual(slots.namesOf('small-chat'), ['a', 'b', 'cloud']);
});

test('free slots go to waiting requests before lines of batches', async (t) => {
  const { ask, take } = open(t, { requestsAtOnce: 1 });
  const only = { model: 'only-a', waitMs: 10_000 };
  const held = await take(only);
  const order: string[] = [];
  const lines = [1, 2].map(async (line) => {
    const taken = await ask({ ...only, lane: 'batch' });
    order.push(`line ${line}`);
    return taken;
  });
  const request = ask(only).then((taken) => {
    order.push('request');
    return taken;
  });
  held.end({ outcome: 'answered' });
  for (const [index, waiting] of [request, ...lines].entries()) {
    const taken = await waiting;
    if (taken.outcome !== 'slot') return t.fail(`${index}: ${taken.outcome}`);
    taken.slot.end({ outcome: 'answered' });
  }
  t.deepEqual(order, ['request', 'line 1', 'line 2']);
});

test("a fleet limit is used up to this worker's share, and a limit per worker completely", async (t) => {
  for (const { perWorker, calls } of [
    { perWorker: false, calls: 2 },
    { perWorker: true, calls: 5 },
  ]) {
    const { slots, ask, take } = open(t, {
      requestsAtOnce: 5,
      perWorker,
      // One with a limit of each worker has shown to have room for eight.
      shareOf: () => (perWorker ? { calls: 8, batchCalls: 7 } : { calls: 2, batchCalls: 1 }),
    });
    for (let taken = 0; taken < calls; taken++) await take({ model: 'only-a' });
    t.deepEqual(await ask({ model: 'only-a' }), { outcome: 'late' });
    t.is(slots.hasSlot('only-a', 'interactive'), false);
    t.deepEqual(
      slots.load().filter(({ backend }) => backend === 'a'),
      [{ backend: 'a', calls, limit: 5, share: perWorker ? undefined : 2 }],
    );
    t.deepEqual(
      [...new Set(slots.uses(false).map(({ limit }) => limit))],
      [perWorker ? undefined : 5],
      'the shares in Redis',
    );
  }
});

test('a reserved slot is not used after shares have expired, and is released', async (t) => {
  let areValid = true;
  const { slots, take } = open(t, { requestsAtOnce: 1, areSharesValid: () => areValid });
  const reserved = slots.reserve('only-a', 'interactive');
  if (reserved.outcome !== 'reserved') return t.fail();
  areValid = false;
  t.is(reserved.reservation.use('user:a'), undefined);
  t.is(slots.load()[0]?.calls, 0);
  areValid = true;
  t.is(reserved.reservation.use('user:a'), undefined, 'it was released');
  (await take({ model: 'only-a' })).end({ outcome: 'answered' });
});

test('a slot that is reserved for longer than a job needs to begin is released', async (t) => {
  const { slots } = open(t, { requestsAtOnce: 1 });
  const reserved = slots.reserve('only-a', 'interactive');
  if (reserved.outcome !== 'reserved') return t.fail();
  while (!slots.hasSlot('only-a', 'interactive')) await sleep(20);
  t.is(reserved.reservation.use('user:a'), undefined);
  t.is(slots.load()[0]?.calls, 0);
});

test('a stopping worker wants a backend only for jobs in progress', async (t) => {
  const { slots, ask, take } = open(t, { requestsAtOnce: 1 });
  const needs = (isLeaving: boolean) => slots.uses(isLeaving).map(({ need }) => need);
  t.deepEqual(
    [needs(false), needs(true)],
    [
      ['idle', 'idle', 'idle'],
      ['stops', 'stops', 'stops'],
    ],
  );
  const slot = await take({ model: 'only-a' });
  slots.reserve('only-a', 'interactive');
  t.deepEqual(
    [needs(false), needs(true)],
    [
      ['wants', 'idle', 'idle'],
      ['stops', 'stops', 'stops'],
    ],
  );
  const waiting = ask({ model: 'only-a', waitMs: 60_000 });
  t.deepEqual(needs(true), ['wants', 'stops', 'stops'], 'its first backend has failed');
  slot.end({ outcome: 'answered' });
  t.like(await waiting, { outcome: 'slot' });
});

test('a backend belongs to several pools if models of several pools have it', (t) => {
  const { slots } = open(t, { requestsAtOnce: 1 });
  const ofSeveral = slots.uses(false).flatMap(({ backend, isOfSeveralPools }) => (isOfSeveralPools ? [backend] : []));
  t.deepEqual(ofSeveral, ['a', 'b', 'cloud'], 'of models of the pools default and large');
});

test('a line that must not wait learns at once that there is no room', async (t) => {
  const { ask, take } = open(t, { requestsAtOnce: 1 });
  await take({ model: 'only-a' });
  t.deepEqual(await ask({ model: 'only-a', lane: 'batch', waitMs: 0 }), { outcome: 'late' });
});

test('lines of batches leave an eighth of a backend free while clients call it, and use all of it otherwise', async (t) => {
  const { ask, take, pass } = open(t, { requestsAtOnce: 16, perWorker: true });
  const only = { model: 'only-a' };
  const line = { ...only, lane: 'batch' } as const;
  for (let taken = 0; taken < 15; taken++) await take(line);
  const request = await take(only);
  request.end({ outcome: 'answered' });
  t.deepEqual(await ask(line), { outcome: 'late' }, 'fourteen of sixteen are for lines');
  const others = [await take(only)];
  pass(4_999);
  t.deepEqual(await ask(line), { outcome: 'late' });
  for (const other of others) other.end({ outcome: 'answered' });
  pass(1);
  t.like(await ask(line), { outcome: 'slot' });
});

test('a backend keeps its breaker when the plan file is replaced, and starts with a new one at another address', async (t) => {
  const { slots, take, ask, replace } = open(t, { isWell: () => false });
  for (let failures = 0; failures < 5; failures++)
    (await take({ model: 'only-a' })).end({ outcome: 'failed', evidence: 'backend' });
  replace({ requestsAtOnce: 3 });
  t.deepEqual(await ask({ model: 'only-a', ...waits }), { outcome: 'refused' });
  replace({}, ({ backends: { a } }) => Object.assign(a ?? {}, { url: 'http://127.0.0.1:9/v1' }));
  t.is((await take({ model: 'only-a' })).backend.url, 'http://127.0.0.1:9/v1');
  t.true(slots.breakerStatuses().every(({ breaker }) => breaker === 'closed'));
});

test('a backend that comes is called, also by jobs that wait, and one that has gone is not', async (t) => {
  const { take, ask, replace } = open(t, { requestsAtOnce: 1 });
  await take({ model: 'only-a' });
  const waiting = take({ model: 'only-a', ...waits });
  replace({ requestsAtOnce: 1 }, ({ models: { 'only-a': model } }) =>
    Object.assign(model ?? {}, { backends: ['a', 'b'] }),
  );
  t.is((await waiting).name, 'b');
  replace({}, ({ models: { 'only-a': model } }) => Object.assign(model ?? {}, { backends: ['cloud'] }));
  t.is((await take({ model: 'only-a' })).name, 'cloud');
  replace({}, ({ models }) => Reflect.deleteProperty(models, 'only-a'));
  t.deepEqual(await ask({ model: 'only-a' }), { outcome: 'refused' });
});

test('a call of a backend that has gone ends normally, and counts against its limit until then', async (t) => {
  const { slots, take, replace, changes } = open(t, { requestsAtOnce: 4 });
  const held = await take({ model: 'only-a' });
  const gone = ({ models, backends }: ChangedPlan) => {
    Reflect.deleteProperty(backends, 'a');
    for (const model of Object.values(models)) model.backends = ['b'];
  };
  replace({ requestsAtOnce: 4 }, gone);
  const usesOf = (name: string) => slots.uses(false).find(({ backend }) => backend === name);
  t.like(usesOf('a'), { limit: 4, inFlight: 1, need: 'stops' });
  t.false(slots.called().has('a'));
  held.firstToken();
  held.end({ outcome: 'failed', evidence: 'backend' });
  t.is(usesOf('a'), undefined);
  t.deepEqual(changes, []);
  replace({ requestsAtOnce: 4 });
  t.like(usesOf('a'), { limit: 4, inFlight: 0, need: 'idle' });
});

test('no gauge shows a backend that has gone', async (t) => {
  const { slots, replace } = open(t, { requestsAtOnce: 2 });
  const registry = new Registry();
  createBackendMetrics(registry).observeBackends(slots);
  t.regex(await registry.metrics(), /svc_backend_limit\{backend="a"\} 2/);
  replace({ requestsAtOnce: 2 }, ({ models }) => {
    for (const model of Object.values(models)) model.backends = ['b'];
  });
  const metrics = await registry.metrics();
  t.notRegex(metrics, /^svc_backend_(breaker_state|calls|limit|share)\{.*backend="a"/m);
  t.regex(metrics, /svc_backend_limit\{backend="b"\} 2/);
});
