import test from 'ava';
import type { BackendPause } from '../../../shared/fleet/backend-pauses.ts';
import { createPauses, followOperatorPauses } from '../../../workers/backends/pauses.ts';
import { recordedLog } from '../../support/recorded-log.ts';

function open() {
  let time = 0;
  const learned: string[] = [];
  const pauses = createPauses({ now: () => time, onNews: (backend) => learned.push(backend) });
  return {
    pauses,
    learned,
    pass: (ms: number) => {
      time += ms;
    },
    left: () => pauses.of('a')?.leftMs,
  };
}

test('a backend whose key this worker lacks is refused and shown until the worker has it, and no other worker takes it over', (t) => {
  const keyless = new Set(['cloud', 'of another pool']);
  const pauses = createPauses({
    ...{ now: () => 0, onNews: (backend) => t.fail(backend) },
    ...{ lacksKey: (backend) => keyless.has(backend), called: () => ['a', 'cloud'] },
  });
  t.deepEqual(['a', 'cloud'].map(pauses.refuses), [false, true]);
  t.deepEqual(pauses.all(), [{ backend: 'cloud', kind: 'account', leftMs: 30_000 }]);
  pauses.merge('cloud', { kind: 'account', leftMs: 5_000 });
  t.deepEqual(pauses.of('cloud'), { kind: 'account', leftMs: 30_000 });
  t.is(pauses.all().length, 1);
  t.deepEqual(pauses.takeNews('cloud'), { busyCalls: 0, pause: undefined });
  keyless.delete('cloud');
  t.deepEqual(pauses.all(), [{ backend: 'cloud', kind: 'account', leftMs: 5_000 }]);
});

test('a busy backend pauses as long as it asks, a minute at most', (t) => {
  const { pauses, left, pass } = open();
  pauses.busy('a', { retryAfterMs: 20_000, calls: 1 });
  t.is(left(), 20_000);
  t.true(pauses.delays('a'));
  t.false(pauses.refuses('a'));
  t.false(pauses.delays('b'));
  pass(20_000);
  t.false(pauses.delays('a'));
  t.is(left(), undefined);
  pauses.busy('a', { retryAfterMs: 86_400_000, calls: 1 });
  t.is(left(), 60_000);
});

test('a backend that does not say how long pauses for 0.25 s, twice as long each time while it stays busy, 2 s at most', (t) => {
  const { pauses, left, pass } = open();
  const seen: (number | undefined)[] = [];
  for (let times = 0; times < 6; times++) {
    pauses.busy('a', { retryAfterMs: undefined, calls: 1 });
    seen.push(left());
    pass(left() ?? 0);
  }
  t.deepEqual(seen, [250, 500, 1_000, 2_000, 2_000, 2_000]);
  pass(250);
  pauses.busy('a', { retryAfterMs: undefined, calls: 1 });
  t.is(left(), 250, 'the first calls after the pause were served');
});

test('an answer of a full backend ends the pause, unless it has asked for one', (t) => {
  const { pauses, left, pass } = open();
  for (let times = 0; times < 3; times++) {
    pauses.busy('a', { retryAfterMs: undefined, calls: 2 });
    pass(left() ?? 0);
  }
  pauses.busy('a', { retryAfterMs: undefined, calls: 2 });
  t.is(left(), 2_000);
  pauses.answered('a');
  t.false(pauses.delays('a'));
  pauses.busy('a', { retryAfterMs: undefined, calls: 2 });
  t.is(left(), 250, 'it begins again');
  pauses.busy('a', { retryAfterMs: 3_000, calls: 2 });
  pauses.answered('a');
  t.is(left(), 3_000);
  pauses.busy('a', { retryAfterMs: undefined, calls: 2 });
  t.deepEqual(pauses.all(), [{ backend: 'a', kind: 'busy', leftMs: 3_000 }]);
});

test('calls that are refused together make one pause', (t) => {
  const { pauses, left, pass } = open();
  for (let calls = 0; calls < 50; calls++) pauses.busy('a', { retryAfterMs: undefined, calls: 1 });
  t.is(left(), 250);
  pass(100);
  pauses.busy('a', { retryAfterMs: undefined, calls: 1 });
  t.is(left(), 150);
});

test('a model that loads delays for a second, and an account that is refused for 30 s as if the breaker were open', (t) => {
  const { pauses, pass } = open();
  pauses.loading('a');
  t.deepEqual(pauses.of('a'), { kind: 'loading', leftMs: 1_000 });
  t.true(pauses.delays('a'));
  pauses.refusesAccount('a');
  t.deepEqual(pauses.of('a'), { kind: 'account', leftMs: 30_000 });
  t.true(pauses.refuses('a'));
  pass(1_000);
  t.false(pauses.delays('a'));
  t.true(pauses.refuses('a'));
  pass(29_000);
  t.false(pauses.refuses('a'));
});

test('what the fleet knows is taken over if it is longer', (t) => {
  const { pauses, left } = open();
  pauses.busy('a', { retryAfterMs: 5_000, calls: 1 });
  pauses.merge('a', { kind: 'busy', leftMs: 1_000 });
  t.is(left(), 5_000);
  pauses.merge('a', { kind: 'busy', leftMs: 9_000 });
  t.is(left(), 9_000);
});

test('what is new is returned once: the longest pause, and the fewest calls with which the backend was busy', (t) => {
  const { pauses, pass, learned } = open();
  t.deepEqual(pauses.takeNews('a'), { busyCalls: 0, pause: undefined });
  for (const calls of [12, 11, 9, 10]) pauses.busy('a', { retryAfterMs: undefined, calls });
  pauses.busy('b', { retryAfterMs: 5_000, calls: 3 });
  pass(50);
  t.deepEqual(pauses.takeNews('a'), { busyCalls: 9, pause: undefined }, 'it has asked for no pause');
  t.deepEqual(pauses.takeNews('a'), { busyCalls: 0, pause: undefined });
  pauses.loading('b');
  t.deepEqual(pauses.takeNews('b'), { busyCalls: 3, pause: { kind: 'busy', leftMs: 4_950 } });
  pauses.merge('c', { kind: 'busy', leftMs: 100 });
  t.deepEqual(pauses.takeNews('c'), { busyCalls: 0, pause: undefined }, 'it came from the fleet');
  t.deepEqual([...new Set(learned)], ['a', 'b']);
});

test('news that did not reach the fleet are new once more', (t) => {
  const { pauses, pass, learned } = open();
  for (const calls of [9, 7]) pauses.busy('a', { retryAfterMs: 5_000, calls });
  const news = pauses.takeNews('a');
  pauses.busy('a', { retryAfterMs: undefined, calls: 8 });
  pauses.keepNews('a', news);
  pauses.keepNews('b', { busyCalls: 0, pause: undefined });
  pass(1_000);
  t.deepEqual(pauses.takeNews('a'), { busyCalls: 7, pause: { kind: 'busy', leftMs: 4_000 } });
  t.deepEqual(pauses.takeNews('b'), { busyCalls: 0, pause: undefined });
  t.false(learned.includes('b'));
});

test('an operator’s pause refuses calls until its end or until the operator ends it, beside other pauses', (t) => {
  const { pauses, pass } = open();
  t.false(pauses.setByOperator('a', 0));
  t.true(pauses.setByOperator('a', 60_000));
  t.false(pauses.setByOperator('a', 59_000), 'it is paused as before');
  pauses.loading('a');
  t.true(pauses.refuses('a'));
  t.false(pauses.refuses('b'));
  t.deepEqual(pauses.all(), [
    { backend: 'a', kind: 'operator', leftMs: 59_000 },
    { backend: 'a', kind: 'loading', leftMs: 1_000 },
  ]);
  t.deepEqual(pauses.takeNews('a').pause?.kind, 'loading', 'other workers learn of it from the operator');
  t.true(pauses.setByOperator('a', 0), 'a shorter time replaces a longer one');
  t.false(pauses.refuses('a'));
  t.true(pauses.delays('a'));
  pauses.setByOperator('a', 5_000);
  pass(5_000);
  t.false(pauses.refuses('a'));
  t.deepEqual(pauses.all(), []);
});

const pause = { since: 0, until: 60_000, by: 'user:olga', reason: null };

function follow(read: () => Promise<ReadonlyMap<string, BackendPause | null>>, time = 10_000) {
  const left: [string, number][] = [];
  const names = ['a', 'b'];
  const followed = followOperatorPauses({
    ...{ backendPauses: { read }, called: () => names, log: recordedLog().log, wallClock: () => time },
    set: (backend, leftMs) => left.push([backend, leftMs]),
  });
  return { followed, left, names };
}

test('a pause lasts as long as is left of it, and a backend without one is called', async (t) => {
  const { followed, left } = follow(async () => new Map([['a', pause] as const, ['b', null] as const]));
  using _followed = followed;
  await followed.look();
  t.deepEqual(left, [
    ['a', 50_000],
    ['b', 0],
  ]);
});

test('of a backend that has left the plan file no pause is kept', async (t) => {
  const { followed, left, names } = follow(async () => new Map([['a', pause] as const]));
  using _followed = followed;
  await followed.look();
  names.splice(0);
  await followed.look();
  t.deepEqual(left.slice(1, 3), [
    ['a', 0],
    ['b', 0],
  ]);
});

test('while Redis has the pause it lasts until the next look, also if the clock of this machine is ahead', async (t) => {
  const { followed, left } = follow(async () => new Map([['a', pause] as const]), 90_000);
  using _followed = followed;
  await followed.look();
  t.deepEqual(left, [['a', 2_000]]);
});

test('without an answer of Redis, and for a backend whose node is away, what is known stays', async (t) => {
  const failing = follow(() => Promise.reject(new Error('no connection')));
  using _failing = failing.followed;
  await t.notThrowsAsync(failing.followed.look());
  const away = follow(async () => new Map([['b', null] as const]));
  using _away = away.followed;
  await away.followed.look();
  t.deepEqual([...failing.left, ...away.left], [['b', 0]]);
});
