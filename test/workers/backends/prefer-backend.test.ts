import { hash } from 'node:crypto';
import test from 'ava';
import type { Candidate } from '../../../workers/backends/choose-backend.ts';
import { firstFor, type Preference, preferBackend } from '../../../workers/backends/prefer-backend.ts';
import { type Random, seededRandom } from '../../support/random.ts';
import { sized } from '../../support/size.ts';

const usual = {
  refuses: false,
  isDelayed: false,
  isSuspect: false,
  isRenewing: false,
  fleetCallsMax: 8,
  hasOwnCall: false,
  firstTokenMs: 100,
};

function backend(name: string, given: Partial<Candidate> = {}): Candidate {
  return { name, location: 'on-prem', ...usual, inFlight: 0, requestsAtOnce: 8, fleetCalls: 0, weight: 1, ...given };
}

const names = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'];
const all = names.map((name) => backend(name));
const keysOf = (count: number, of = 'prompt') => Array.from({ length: count }, (_, index) => `${of} ${index}`);
const changed = (name: string | undefined, change: Partial<Candidate>) =>
  all.map((each) => (each.name === name ? { ...each, ...change } : each));
const choiceOf = (key: string, candidates = all) => preferBackend([key], candidates).choice?.name;
const countsOf = (keys: readonly string[], candidates: readonly Candidate[]) =>
  Map.groupBy(keys, (key) => firstFor(key, candidates)?.name ?? 'none');

test('a key has the same backend on every worker, in whatever order the plan file has them', (t) => {
  for (const key of keysOf(200)) t.is(choiceOf(key, all.toReversed()), choiceOf(key));
  for (const [name, keys] of countsOf(keysOf(8_000), all)) {
    t.true(keys.length > 850 && keys.length < 1_150, `${name} has ${keys.length} of 8,000 keys`);
  }
});

test('if a backend leaves or comes, only its own keys move', (t) => {
  const [gone, ...others] = all;
  for (const key of keysOf(1_000)) {
    const before = choiceOf(key);
    const after = choiceOf(key, others);
    if (before === gone?.name) t.not(after, before);
    else t.is(after, before);
  }
});

test('a weight is the part of all keys: a canary of 5 beside 95 gets 5 % ± 1 of 10,000 prefixes, and one of 0 none', (t) => {
  const canary = [backend('usual', { weight: 95 }), backend('canary', { weight: 5 })];
  const counts = countsOf(keysOf(10_000), canary);
  t.true(Math.abs((counts.get('canary') ?? []).length - 500) <= 100, `${counts.get('canary')?.length}`);
  const more = [backend('usual', { weight: 95 }), backend('canary', { weight: 10 })];
  for (const key of counts.get('canary') ?? [])
    t.is(firstFor(key, more)?.name, 'canary', 'a larger part keeps its keys');
  t.is(preferBackend(['key'], [backend('drained', { weight: 0 })]).choice, undefined);
});

test('a backend that must not be called now, or is asked last, is not chosen: the next one in the order of the key is', (t) => {
  const first = choiceOf('key');
  const second = choiceOf(
    'key',
    all.filter(({ name }) => name !== first),
  );
  for (const change of [{ refuses: true }, { isDelayed: true }, { isSuspect: true }, { weight: 0 }])
    t.deepEqual(preferBackend(['key'], changed(first, change)), {
      choice: { name: second ?? '', depth: 1 },
      missed: undefined,
    });
  t.is(choiceOf('key', changed(first, { location: 'cloud' })), second, 'a key is for backends on-prem');
  t.deepEqual(preferBackend(['key'], []), { choice: undefined, missed: undefined });
});

test('at the bounds of load: below 1.25 times the mean, or less than 4 calls above it', (t) => {
  const [first = '', others] = [choiceOf('key'), 7];
  const withCalls = (own: number, each: number) =>
    all.map((one) => ({ ...one, requestsAtOnce: 1_000, fleetCalls: one.name === first ? own : each }));
  const isChosen = (own: number, each: number) => preferBackend(['key'], withCalls(own, each)).choice?.name === first;
  const mean = (own: number, each: number) => (own + others * each) / (others + 1);
  t.true(isChosen(4, 0) && 4 < mean(4, 0) + 4);
  t.false(isChosen(5, 0));
  t.true(isChosen(128, 100) && 128 < 1.25 * mean(128, 100));
  t.is(mean(130, 100) * 1.25, 129.6875);
  t.true(isChosen(129, 100));
  t.false(isChosen(130, 100));
  t.deepEqual(preferBackend(['key'], withCalls(130, 100)).missed, { name: first, reason: 'load' });
  t.is(mean(64, 64), 64);
  t.true(isChosen(64, 64), 'all are equally busy');
});

test('where weights differ, so do the parts that loads are compared with', (t) => {
  const of = (canaryCalls: number) => [
    backend('usual', { weight: 95, requestsAtOnce: 1_000, fleetCalls: 190 }),
    backend('canary', { weight: 5, requestsAtOnce: 1_000, fleetCalls: canaryCalls }),
  ];
  const key = keysOf(1_000).find((each) => firstFor(each, of(0))?.name === 'canary') ?? '';
  t.is(choiceOf(key, of(13)), 'canary');
  t.is(choiceOf(key, of(15)), undefined, 'its part of 205 is 10');
  const usualKey = keysOf(1_000).find((each) => firstFor(each, of(0))?.name === 'usual') ?? '';
  t.is(choiceOf(usualKey, of(10)), 'usual');
});

test('if the first choice of a key is too busy or has no room here, the next shallower key chooses', (t) => {
  const deep = keysOf(100, 'deep').find((key) => choiceOf(key) === 'a') ?? '';
  const shallow = keysOf(100, 'shallow').find((key) => choiceOf(key) === 'b') ?? '';
  const keys = [shallow, deep];
  t.deepEqual(preferBackend(keys, all), { choice: { name: 'a', depth: 1 }, missed: undefined });
  const full = changed('a', { inFlight: 8 });
  t.deepEqual(preferBackend(keys, full), {
    choice: { name: 'b', depth: 2 },
    missed: { name: 'a', reason: 'room' },
  });
  const both = full.map((each) => (each.name === 'b' ? { ...each, fleetCalls: 40 } : each));
  t.deepEqual(preferBackend(keys, both), { choice: undefined, missed: { name: 'a', reason: 'room' } });
});

test('a first choice that has no room only while its share is renewed is named as such', (t) => {
  const first = choiceOf('key');
  const { missed } = preferBackend(['key'], changed(first, { inFlight: 8, isRenewing: true }));
  t.deepEqual(missed, { name: first ?? '', reason: 'renewal' });
  const renewed = changed(first, { inFlight: 8, isRenewing: true, fleetCalls: 90 });
  t.is(preferBackend(['key'], renewed).missed?.reason, 'load');
});

/** The same rule, written as plainly as possible. */
function modelOf(keys: readonly string[], candidates: readonly Candidate[]): Preference['choice'] {
  const mayBeCalled = candidates.filter(
    (each) => each.location === 'on-prem' && each.weight > 0 && !each.refuses && !each.isDelayed && !each.isSuspect,
  );
  const sumOf = (field: 'fleetCalls' | 'weight') => mayBeCalled.reduce((sum, each) => sum + each[field], 0);
  for (let depth = 1; depth <= keys.length; depth++) {
    const scores = mayBeCalled.map((each) => {
      const number = Number.parseInt(hash('sha256', `${keys[keys.length - depth]} ${each.name}`).slice(0, 12), 16);
      return { each, score: -each.weight / Math.log((number + 0.5) / 2 ** 48) };
    });
    const first = scores.sort((one, other) => other.score - one.score)[0]?.each;
    if (first === undefined || first.inFlight >= first.requestsAtOnce) continue;
    const mean = sumOf('fleetCalls') / sumOf('weight');
    if (first.fleetCalls < Math.max(mean * first.weight * 1.25, mean * first.weight + 4))
      return { name: first.name, depth };
  }
  return undefined;
}

test('no state of the backends and no keys lead to another choice than the rule', (t) => {
  const seed = Math.floor(Math.random() * 2 ** 31);
  const random = seededRandom(seed);
  const depths = new Map<number, number>();
  for (let round = 0; round < sized(3_000); round++) {
    const candidates = anyBackends(random);
    const keys = keysOf(Math.floor(random.between(0, 6)), `round ${round}`);
    const { choice, missed } = preferBackend(keys, candidates);
    t.deepEqual(choice, modelOf(keys, candidates), `seed ${seed}, round ${round}`);
    t.is(
      missed === undefined,
      choice?.depth === 1 || keys.length === 0 || modelOf(keys, emptied(candidates)) === undefined,
    );
    depths.set(choice?.depth ?? 0, (depths.get(choice?.depth ?? 0) ?? 0) + 1);
  }
  for (const depth of [0, 1, 2, 3]) t.true((depths.get(depth) ?? 0) > 0, `depth ${depth} occurs`);
});

function anyBackends(random: Random): Candidate[] {
  const rarely = () => random() < 0.15;
  return names.slice(0, Math.floor(random.between(0, 9))).map((name) =>
    backend(name, {
      ...{ location: rarely() ? 'cloud' : 'on-prem', refuses: rarely(), isDelayed: rarely(), isSuspect: rarely() },
      ...{ inFlight: Math.floor(random.between(0, 6)), requestsAtOnce: Math.floor(random.between(1, 9)) },
      ...{ fleetCalls: Math.floor(random.between(0, 30)), weight: rarely() ? Math.floor(random.between(0, 101)) : 1 },
    }),
  );
}

function emptied(candidates: readonly Candidate[]): Candidate[] {
  return candidates.map((each) => ({ ...each, inFlight: 0, requestsAtOnce: 1, fleetCalls: 0 }));
}
