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

test('being full is no failure: no breaker has changed', async (t) => {
  const { slots, changes, ask, take } = open(t, { requestsAtOnce: 1 });
  await take({ model: 'only-a' });
  for (let asked = 0; asked < 50; asked++) await ask({ model: 'only-a' });
  t.deepEqual(changes, []);
  t.true(slots.breakerStatuses().every(({ breaker }) => breaker === 'closed'));
});

test('a backend whose key this worker lacks is not called: the next one is, and a model that has no other is refused', async (t) => {
  const { slots, ask, take } = open(t, { lacksKey: (backend) => backend === 'a' });
  t.deepEqual(await ask({ model: 'only-a', ...waits }), { outcome: 'refused' });
  t.true(slots.allRefuse('only-a'));
  t.is(slots.callableInMs('only-a'), 30_000);
  for (let calls = 0; calls < 20; calls++) t.is((await take()).name, 'b');
});

test('five failures open the breaker of that backend for that model, and for no other', async (t) => {
  const { slots, changes, ask, take } = open(t, { isWell: () => false });
  for (let failures = 0; failures < 5; failures++)
    (await take({ model: 'only-a' })).end({ outcome: 'failed', evidence: 'backend' });
  t.deepEqual(changes, [{ model: 'only-a', backend: 'a', breaker: 'open' }]);
  t.deepEqual(await ask({ model: 'only-a', ...waits }), { outcome: 'refused' });
  t.true(slots.allRefuse('only-a'));
  t.false(slots.allRefuse('small-chat'));
  t.is((await take()).name, 'a');
});

test('a backend that could not be reached is tested for a request, which waits, and calls it if it is back', async (t) => {
  let isWell = false;
  const { slots, pass, ask, take } = open(t, { isWell: () => isWell });
  for (let failures = 0; failures < 5; failures++)
    (await take({ model: 'only-a' })).end({ outcome: 'failed', evidence: 'backend' });
  t.deepEqual(await ask({ model: 'only-a', ...waits }), { outcome: 'refused' });
  isWell = true;
  t.deepEqual(await ask({ model: 'only-a', ...waits }), { outcome: 'refused' }, 'it was just tested');
  pass(100);
  const asked = [1, 2, 3].map(() => ask({ model: 'only-a', ...waits }));
  t.false(slots.allRefuse('only-a'));
  const probe = await asked[0];
  if (probe?.outcome !== 'slot') return t.fail(probe?.outcome);
  t.is(await Promise.race([asked[1], asked[2], 'they wait for its result']), 'they wait for its result');
  probe.slot.firstToken();
  t.deepEqual(
    (await Promise.all(asked)).map(({ outcome }) => outcome),
    ['slot', 'slot', 'slot'],
  );
});

test('a waiting job is refused when its last backend has failed', async (t) => {
  const { ask, take } = open(t, { requestsAtOnce: 5, isWell: () => false });
  const calls = await Promise.all(Array.from({ length: 5 }, () => take({ model: 'only-a' })));
  const waiting = ask({ model: 'only-a', ...waits });
  // The first of them to end makes room, and the waiting job is in flight then.
  for (const call of calls) call.end({ outcome: 'failed', evidence: 'backend' });
  const taken = await waiting;
  t.is(taken.outcome, 'slot');
  t.deepEqual(await ask({ model: 'only-a', ...waits }), { outcome: 'refused' });
});

test('a busy backend is not called for the time that it asks for, by any model, and jobs wait for it', async (t) => {
  const { ask, take, pass } = open(t);
  (await take({ tried: new Set(['b', 'cloud']) })).end({ outcome: 'busy', retryAfterMs: 5_000 });
  t.deepEqual(await ask({ model: 'only-a' }), { outcome: 'late' });
  pass(4_999);
  t.deepEqual(await ask({ model: 'only-a' }), { outcome: 'late' });
  pass(1);
  t.is((await take({ model: 'only-a' })).name, 'a');
});

test('a job that waits for a full backend gets another one whose pause has ended', async (t) => {
  const { ask, take, pass } = open(t, { requestsAtOnce: 1 });
  const tried = new Set(['b']);
  const cloud = await take({ tried: new Set(['a', 'b']) });
  await take({ model: 'only-a' });
  cloud.end({ outcome: 'busy', retryAfterMs: 30 });
  const waiting = ask({ tried, ...waits });
  pass(30);
  const taken = await waiting;
  t.is(taken.outcome === 'slot' && taken.slot.name, 'cloud');
});

test('of two pauses that a backend asks for, the longer one counts', async (t) => {
  const { ask, take, pass } = open(t);
  const [long, short] = [await take({ model: 'only-a' }), await take({ model: 'only-a' })];
  long.end({ outcome: 'busy', retryAfterMs: 5_000 });
  short.end({ outcome: 'busy', retryAfterMs: 100 });
  pass(4_999);
  t.deepEqual(await ask({ model: 'only-a' }), { outcome: 'late' });
});

test('a client that leaves does not count against its backend', async (t) => {
  const { changes, take } = open(t);
  for (let calls = 0; calls < 50; calls++) (await take({ model: 'only-a' })).end({ outcome: 'abandoned' });
  t.deepEqual(changes, []);
});

test('a backend is asked last for an account whose requests have failed there, one call at a time, and as usual for others', async (t) => {
  const { ask, take, changes } = open(t);
  const failed = { outcome: 'failed', evidence: 'request' } as const;
  const onlyA = { tried: new Set(['b', 'cloud']) };
  for (let failures = 0; failures < 20; failures++) (await take(onlyA)).end(failed);
  t.deepEqual(changes, [], 'one account alone opens no breaker');
  const [first, second] = [await take(), await take()];
  t.deepEqual([first.name, second.name], ['b', 'b']);
  t.is((await take(onlyA)).name, 'a');
  t.deepEqual(await ask(onlyA), { outcome: 'late' }, 'a call of this account is in flight there');
  t.is((await take({ holder: 'user:b' })).name, 'a');
});

test('a reserved slot of a suspect backend is given up for another one, if the account has another one', async (t) => {
  const { slots, take } = open(t);
  for (const asked of [{ model: 'only-a' }, { tried: new Set(['b', 'cloud']) }])
    (await take(asked)).end({ outcome: 'failed', evidence: 'request' });
  const ask = {
    lane: 'interactive',
    holder: 'user:a',
    tried: new Set<string>(),
    promptTokensMin: 0,
    waitMs: 0,
  } as const;
  const { signal } = new AbortController();
  for (const [model, name] of [
    ['small-chat', 'b'],
    ['only-a', 'a'],
  ] as const) {
    const reserved = slots.reserve(model, 'interactive');
    if (reserved.outcome !== 'reserved') throw new Error(reserved.outcome);
    t.is(reserved.reservation.backend, 'a');
    const taken = await slots.take({ ...ask, model, signal }, reserved.reservation);
    t.is(taken.outcome === 'slot' && taken.slot.name, name);
    t.is(
      slots.load().reduce((sum, { calls }) => sum + calls, 0),
      1,
    );
    if (taken.outcome === 'slot') taken.slot.end({ outcome: 'abandoned' });
  }
});

test('an account has one call at a backend that is suspect for it, also in reserved slots', async (t) => {
  const { slots, take } = open(t);
  (await take({ model: 'only-a' })).end({ outcome: 'failed', evidence: 'request' });
  const reserved = [1, 2].map(() => slots.reserve('only-a', 'interactive'));
  const ask = { model: 'only-a', lane: 'interactive', holder: 'user:a', tried: new Set<string>() } as const;
  const { signal } = new AbortController();
  const taken = await Promise.all(
    reserved.map((each) => {
      if (each.outcome !== 'reserved') throw new Error(each.outcome);
      return slots.take({ ...ask, promptTokensMin: 0, waitMs: 0, signal }, each.reservation);
    }),
  );
  t.deepEqual(
    taken.map(({ outcome }) => outcome),
    ['slot', 'late'],
  );
});

test('a backend with too small a context is not asked', async (t) => {
  const { take, ask } = open(t, { contextOf: (name) => ({ a: 8_192, b: 32_768 })[name] });
  t.is((await take({ promptTokensMin: 8_191 })).name, 'a');
  t.is((await take({ promptTokensMin: 8_192 })).name, 'b');
  t.is((await take({ promptTokensMin: 32_768 })).name, 'cloud');
  t.deepEqual(await ask({ model: 'only-a', promptTokensMin: 8_192 }), { outcome: 'refused' });
});

test('requests wait while a call tests a backend', async (t) => {
  const { ask, take, changes } = open(t);
  const failed = { outcome: 'failed', evidence: 'backend' } as const;
  for (let failures = 0; failures < 5; failures++) (await take({ model: 'only-a' })).end(failed);
  t.is(changes.at(-1)?.breaker, 'open');
  while (changes.at(-1)?.breaker !== 'half-open') await sleep(50);
  const probe = await take({ model: 'only-a' });
  t.deepEqual(await ask({ model: 'only-a' }), { outcome: 'late' });
  const waiting = take({ model: 'only-a', ...waits });
  probe.firstToken();
  t.is((await waiting).name, 'a');
});

test('a busy or loading backend counts nothing against it', async (t) => {
  const { take, changes, pass } = open(t);
  for (let times = 0; times < 20; times++) {
    (await take({ model: 'only-a' })).end(
      times % 2 === 0 ? { outcome: 'loading' } : { outcome: 'busy', retryAfterMs: 1 },
    );
    pass(1_000);
  }
  t.deepEqual(changes, []);
});

for (const end of [{ outcome: 'loading' }, { outcome: 'busy', retryAfterMs: undefined }] as const) {
  test(`a probe that finds the backend ${end.outcome} closes its breaker: requests wait for it`, async (t) => {
    const { ask, take, changes } = open(t);
    for (let failures = 0; failures < 5; failures++)
      (await take({ model: 'only-a' })).end({ outcome: 'failed', evidence: 'backend' });
    (await take({ model: 'only-a', ...waits })).end(end);
    t.deepEqual(
      changes.map(({ breaker }) => breaker),
      ['open', 'half-open', 'closed'],
    );
    t.deepEqual(await ask({ model: 'only-a' }), { outcome: 'late' });
  });
}

test('an account whose probe proved nothing is refused for a while, also in a reserved slot, and others are not', async (t) => {
  const { ask, take, slots, pass } = open(t);
  for (let failures = 0; failures < 5; failures++)
    (await take({ model: 'only-a' })).end({ outcome: 'failed', evidence: 'backend' });
  (await take({ model: 'only-a', ...waits })).end({ outcome: 'failed', evidence: 'request' });
  const reserved = slots.reserve('only-a', 'interactive');
  if (reserved.outcome !== 'reserved') return t.fail(reserved.outcome);
  const own = { model: 'only-a', lane: 'interactive', holder: 'user:a', tried: new Set<string>(), waitMs: 0 } as const;
  const { signal } = new AbortController();
  t.deepEqual(await slots.take({ ...own, promptTokensMin: 0, signal }, reserved.reservation), { outcome: 'refused' });
  t.deepEqual(await ask({ model: 'only-a', ...waits }), { outcome: 'refused' });
  pass(5_000);
  (await take({ model: 'only-a' })).end({ outcome: 'failed', evidence: 'request' });
  t.is((await take({ model: 'only-a', holder: 'user:b' })).name, 'a');
});

test('a full backend that answers a call gets the next one at once, unless it has asked for a pause', async (t) => {
  const { ask, take } = open(t);
  const [served, refused, asking] = await Promise.all([1, 2, 3].map(() => take({ model: 'only-a' })));
  refused?.end({ outcome: 'busy', retryAfterMs: undefined });
  t.deepEqual(await ask({ model: 'only-a' }), { outcome: 'late' });
  served?.end({ outcome: 'answered' });
  const next = await take({ model: 'only-a' });
  asking?.end({ outcome: 'busy', retryAfterMs: 5_000 });
  next.end({ outcome: 'answered' });
  t.deepEqual(await ask({ model: 'only-a' }), { outcome: 'late' });
});

test('a job that waits for a call of its own account at a suspect backend holds back no other account', async (t) => {
  const { take, ask } = open(t, { requestsAtOnce: 2 });
  const [first, second] = [await take({ model: 'only-a' }), await take({ model: 'only-a', holder: 'user:b' })];
  const waiting = [
    ask({ model: 'only-a', ...waits }),
    ask({ model: 'only-a', ...waits }),
    take({ model: 'only-a', holder: 'user:b', ...waits }),
  ];
  first.end({ outcome: 'failed', evidence: 'request' });
  t.like(await waiting[0], { outcome: 'slot' });
  second.end({ outcome: 'answered' });
  t.like(await waiting[2], { name: 'a' });
});
