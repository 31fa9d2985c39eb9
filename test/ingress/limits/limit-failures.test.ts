import { setImmediate as settled } from 'node:timers/promises';
import test from 'ava';
import { invalidKey } from '../../../ingress/authentication/authorization.ts';
import { createLimitFailures, type MinuteCounts } from '../../../ingress/limits/minute-counts.ts';
import { ApiError, errorHeaders, temporarilyUnavailable } from '../../../shared/errors.ts';

const network = '203.0.113.7';
const perMinute = 5;
const leftMs = 40_000;

/** Counts in memory, whose replies the test can delay. */
function createSubject() {
  const counts = new Map<string, number>();
  let answered = Promise.resolve();
  const failures: MinuteCounts = {
    known: (of) => ({ count: counts.get(of) ?? 0, leftMs }),
    async add(of) {
      await answered;
      counts.set(of, (counts.get(of) ?? 0) + 1);
      return failures.known(of);
    },
  };
  return {
    limit: createLimitFailures({ kind: 'auth_failures', failures, perMinute }),
    count: (of = network) => counts.get(of) ?? 0,
    forget: () => counts.clear(),
    /** Delays the replies of counts until the returned function is called. */
    hold(): () => void {
      const held = Promise.withResolvers<void>();
      answered = held.promise;
      return held.resolve;
    },
  };
}

const unknown = () => Promise.reject(invalidKey());
const outcomeOf = (call: Promise<unknown>) =>
  call.then(
    () => 'found',
    (error: ApiError) => error.fields.type ?? error.code,
  );

/** Lookups in progress until the test ends them. */
function createLookUps() {
  const running: PromiseWithResolvers<string>[] = [];
  return {
    running,
    lookUp() {
      const one = Promise.withResolvers<string>();
      running.push(one);
      return one.promise;
    },
  };
}

test('failures up to the limit within a minute get 401; beyond it nothing is looked up', async (t) => {
  const { limit, count } = createSubject();
  for (let failure = 0; failure < perMinute; failure++) {
    t.is(await outcomeOf(limit(network, unknown)), 'INVALID_KEY');
    await settled();
  }
  let lookedUp = false;
  const lookUp = async () => {
    lookedUp = true;
  };
  const error = await t.throwsAsync(limit(network, lookUp), { instanceOf: ApiError });
  t.false(lookedUp);
  t.is(count(), perMinute, 'a refusal does not count as a failure');
  t.like(error, { code: 'rate_limit_exceeded', fields: { type: 'auth_failures', retry_after_ms: leftMs } });
  t.deepEqual(error && errorHeaders(error), { 'retry-after': '40', 'retry-after-ms': '40000' });
});

test('other networks are unaffected, and the limited one is admitted in its next minute', async (t) => {
  const { limit, forget } = createSubject();
  for (let failure = 0; failure < perMinute; failure++) await outcomeOf(limit(network, unknown));
  await settled();
  t.is(await outcomeOf(limit('203.0.113.8', async () => 'found')), 'found');
  t.is(await outcomeOf(limit(network, async () => 'found')), 'auth_failures');
  forget();
  t.is(await outcomeOf(limit(network, async () => 'found')), 'found');
});

test('a found key and an internal error do not count as failures', async (t) => {
  const { limit, count } = createSubject();
  for (let index = 0; index < 3 * perMinute; index++) {
    t.is(await outcomeOf(limit(network, async () => 'found')), 'found');
    t.is(await outcomeOf(limit(network, () => Promise.reject(temporarilyUnavailable()))), 'SERVICE_UNAVAILABLE');
  }
  t.is(count(), 0);
});

test('of any number of concurrent lookups, at most the limit fail', async (t) => {
  const { limit, count } = createSubject();
  const { running, lookUp } = createLookUps();
  const outcomes = Array.from({ length: 1_000 }, () => outcomeOf(limit(network, lookUp)));
  for (let ended = 0; ended < perMinute; ended++) {
    await settled();
    t.is(running.length, perMinute, 'no further one starts');
    running[ended]?.reject(invalidKey());
  }
  const all = await Promise.all(outcomes);
  t.is(all.filter((outcome) => outcome === 'INVALID_KEY').length, perMinute);
  t.is(all.filter((outcome) => outcome === 'auth_failures').length, 1_000 - perMinute);
  t.deepEqual([running.length, count()], [perMinute, perMinute]);
});

test('any number of concurrent valid keys are all found, in order', async (t) => {
  const { limit } = createSubject();
  const { running, lookUp } = createLookUps();
  const found: number[] = [];
  const finding = Array.from({ length: 100 }, async (_, index) => {
    await limit(network, lookUp);
    found.push(index);
  });
  for (let ended = 0; ended < 100; ended++) {
    await settled();
    t.is(running.length, Math.min(100, ended + perMinute));
    running[ended]?.resolve('found');
  }
  await Promise.all(finding);
  t.deepEqual(
    found,
    Array.from({ length: 100 }, (_, index) => index),
  );
});

test('a failure is answered before it is counted, and counts as in progress until then', async (t) => {
  const { limit, hold, count } = createSubject();
  const answer = hold();
  for (let failure = 0; failure < perMinute; failure++) t.is(await outcomeOf(limit(network, unknown)), 'INVALID_KEY');
  let next: unknown;
  const waiting = outcomeOf(limit(network, async () => 'found')).then((outcome) => {
    next = outcome;
  });
  await settled();
  t.deepEqual([count(), next], [0, undefined]);
  answer();
  await waiting;
  t.deepEqual([count(), next], [perMinute, 'auth_failures']);
});
