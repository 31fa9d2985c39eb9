import { setTimeout as sleep } from 'node:timers/promises';
import test from 'ava';
import { openSlotsSide as open, waits } from '../../support/slots-side.ts';

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
