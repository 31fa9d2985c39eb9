import test from 'ava';
import { type Candidate, chooseBackend } from '../../../workers/backends/choose-backend.ts';
import { seededRandom } from '../../support/random.ts';

function backend(name: string, given: Partial<Candidate> = {}): Candidate {
  const location = name.startsWith('cloud') ? 'cloud' : 'on-prem';
  const well = { refuses: false, isDelayed: false, isSuspect: false, hasOwnCall: false };
  return {
    name,
    location,
    ...well,
    inFlight: 0,
    requestsAtOnce: 4,
    isRenewing: false,
    fleetCalls: 0,
    fleetCallsMax: 8,
    weight: 1,
    firstTokenMs: 100,
    ...given,
  };
}

const full = { inFlight: 4 };
const refuses = { refuses: true };

const table: { title: string; candidates: Candidate[]; chosen: string }[] = [
  {
    title: 'the first in the plan file if all are equal',
    candidates: [backend('b'), backend('a')],
    chosen: 'b',
  },
  {
    title: 'on-prem before the cloud, regardless of order and load',
    candidates: [backend('cloud'), backend('a', { inFlight: 3, firstTokenMs: 9_000 })],
    chosen: 'a',
  },
  {
    title: 'the one with the fewest calls in flight, even if it is slow',
    candidates: [backend('a', { inFlight: 2 }), backend('b', { inFlight: 1, firstTokenMs: 9_000 })],
    chosen: 'b',
  },
  {
    title: 'of two with the same number of calls, the faster one',
    candidates: [backend('a', { inFlight: 1 }), backend('b', { inFlight: 1, firstTokenMs: 99 })],
    chosen: 'b',
  },
  {
    title: 'of two with the same number of calls, the one with an unknown time',
    candidates: [backend('a', { firstTokenMs: 1 }), backend('b', { firstTokenMs: undefined })],
    chosen: 'b',
  },
  { title: 'not one that refuses', candidates: [backend('a', refuses), backend('b', { inFlight: 3 })], chosen: 'b' },
  { title: 'not one that is full', candidates: [backend('a', full), backend('b', { inFlight: 3 })], chosen: 'b' },
  {
    title: 'one with a higher limit that still has room',
    candidates: [backend('a', full), backend('b', { inFlight: 5, requestsAtOnce: 6 })],
    chosen: 'b',
  },
  {
    title: 'not one that is busy',
    candidates: [backend('a', { isDelayed: true }), backend('b', { inFlight: 3 })],
    chosen: 'b',
  },
  {
    title: 'a suspect one after all others, also in the cloud',
    candidates: [backend('a', { isSuspect: true }), backend('cloud', { inFlight: 3 })],
    chosen: 'cloud',
  },
  {
    title: 'a suspect one if no other has room',
    candidates: [backend('a', { isSuspect: true }), backend('b', full)],
    chosen: 'a',
  },
  {
    title: 'the cloud if the on-prem replicas refuse',
    candidates: [backend('a', refuses), backend('b', refuses), backend('cloud')],
    chosen: 'cloud',
  },
  {
    title: 'the cloud if the on-prem replicas are full',
    candidates: [backend('a', full), backend('b', full), backend('cloud')],
    chosen: 'cloud',
  },
  {
    title: 'the least loaded of two clouds',
    candidates: [backend('cloud-a', { inFlight: 1 }), backend('cloud-b')],
    chosen: 'cloud-b',
  },
  { title: 'none, because all are full', candidates: [backend('a', full), backend('cloud', full)], chosen: 'full' },
  {
    title: 'none, because the one that does not refuse is full',
    candidates: [backend('a', full), backend('cloud', refuses)],
    chosen: 'full',
  },
  {
    title: 'none, because all refuse, and one of them is also full',
    candidates: [backend('a', { ...full, ...refuses }), backend('cloud', refuses)],
    chosen: 'refused',
  },
  { title: 'none, because none is left', candidates: [], chosen: 'refused' },
];

for (const { title, candidates, chosen } of table) {
  test(`chooses ${title}`, (t) => {
    const choice = chooseBackend(candidates, { random: () => 0.5 });
    t.is(choice.outcome === 'call' ? choice.name : choice.outcome, chosen);
  });
}

test('of many candidates the better of two random ones is chosen, and each can be drawn', (t) => {
  const many = [5, 4, 3, 2, 1, 0].map((inFlight, index) => backend(`b${index}`, { inFlight, requestsAtOnce: 9 }));
  const drawn = (one: number, other: number) => {
    const numbers = [one, other];
    const choice = chooseBackend(many, { random: () => numbers.shift() ?? 0 });
    return choice.outcome === 'call' ? choice.name : choice.outcome;
  };
  t.is(drawn(0, 0), 'b1');
  t.is(drawn(0.2, 0.2), 'b3');
  t.is(drawn(0.99, 0), 'b5');
  const chosen = new Set<string>();
  for (let one = 0; one < 60; one++) for (let other = 0; other < 50; other++) chosen.add(drawn(one / 60, other / 50));
  t.deepEqual([...chosen].sort(), ['b1', 'b2', 'b3', 'b4', 'b5'], 'except the most loaded, which loses to any other');
});

test('of four candidates the least loaded of all is chosen', (t) => {
  const four = [3, 2, 1, 0].map((inFlight, index) => backend(`b${index}`, { inFlight }));
  t.deepEqual(chooseBackend(four, { random: () => 0 }), { outcome: 'call', name: 'b3' });
});

test('a line of a batch waits for a full replica, and goes to the cloud if no replica may be called', (t) => {
  const choose = (...candidates: Candidate[]) => chooseBackend(candidates, { lane: 'batch' });
  t.deepEqual(choose(backend('a', full), backend('cloud')), { outcome: 'full' });
  t.deepEqual(choose(backend('a', full), backend('b'), backend('cloud')), { outcome: 'call', name: 'b' });
  t.deepEqual(choose(backend('a', refuses), backend('cloud')), { outcome: 'call', name: 'cloud' });
  t.deepEqual(choose(backend('cloud')), { outcome: 'call', name: 'cloud' });
});

test('a cloud is not called for the time in which the share of a replica is renewed', (t) => {
  const candidates = [backend('a', { inFlight: 4, isRenewing: true }), backend('cloud')];
  t.deepEqual(chooseBackend(candidates), { outcome: 'full' });
  t.deepEqual(chooseBackend([backend('a', full), backend('cloud')]), { outcome: 'call', name: 'cloud' });
  t.deepEqual(chooseBackend([...candidates, backend('b')]), { outcome: 'call', name: 'b' });
});

test('if weights differ, each is taken with its weight as its chance; those without room are left out', (t) => {
  const random = seededRandom(1);
  const candidates = [backend('usual', { weight: 95 }), backend('canary', { weight: 5, inFlight: 1 })];
  const chosen = Array.from({ length: 10_000 }, () => chooseBackend(candidates, { random }));
  const ofCanary = chosen.filter((choice) => choice.outcome === 'call' && choice.name === 'canary').length;
  t.true(Math.abs(ofCanary - 500) <= 100, `${ofCanary}`);
  const full = [backend('usual', { weight: 95, ...{ inFlight: 4 } }), backend('canary', { weight: 5 })];
  t.deepEqual(chooseBackend(full, { random }), { outcome: 'call', name: 'canary' });
  for (const [value, name] of [
    [0, 'usual'],
    [0.9499, 'usual'],
    [0.95, 'canary'],
    [0.9999, 'canary'],
  ] as const)
    t.deepEqual(chooseBackend(candidates, { random: () => value }), { outcome: 'call', name });
});
