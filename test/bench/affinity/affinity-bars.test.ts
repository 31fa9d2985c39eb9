import test from 'ava';
import { verdictOf } from '../comparison/bars.ts';
import { type AffinityRun, affinityBars, isWrong, keyBar, leavingBar } from './affinity-bars.ts';
import type { AffinityFigures } from './figures.ts';
import { nameOf, smgNames } from './variants.ts';

const right: AffinityFigures = {
  ...{ cached: 0.7, cachedOfTurns: 0.85, ideal: 0.75, idealOfTurns: 0.9, firstTokenP50Ms: 60, firstTokenP99Ms: 450 },
  ...{ mostCalls: 1.1, mostTime: 1.1, atOnce: 8, moved: 0, failed: 0, failure: undefined, slots: 0.5, seconds: 60 },
  ...{ cpu: 0.6, othersCpu: 0, cpuMs: {}, books: { overAdmitted: 0, lostUsage: 0, duplicates: 0 } },
};
const run = (variant: string, figures: Partial<AffinityFigures> = {}, change: Partial<AffinityRun> = {}) => ({
  ...{ scenario: 'chats', round: 1, variant, figures: { ...right, ...figures }, ...change },
});
const [prefix, none] = [nameOf('prefix', 4), nameOf('none', 4)];
const slow = { firstTokenP50Ms: 500, firstTokenP99Ms: 900, cached: 0.2 };
const peer = { atOnce: 20, books: undefined };
const met = [
  run(prefix),
  run(none, slow),
  run(smgNames.prefix_hash, { ...peer, cached: 0.7, firstTokenP99Ms: 460 }),
  run(smgNames.cache_aware, { ...peer, cached: 0.6, firstTokenP99Ms: 500 }),
  run(prefix, { mostCalls: 1.2 }, { scenario: 'shared' }),
];
const barOf = (runs: readonly AffinityRun[], claim: string) => {
  const bar = affinityBars(runs, 8).find((each) => each.claim === claim);
  return bar && [bar.measured, verdictOf(bar).split(' ')[0]];
};
const missed = (runs: readonly AffinityRun[]) =>
  affinityBars(runs, 8)
    .filter((bar) => verdictOf(bar).startsWith('missed'))
    .map(({ claim }) => claim);

test('all bars of a number of workers are met by figures that meet them, and those without figures are not measured', (t) => {
  t.deepEqual(missed(met), []);
  const unmeasured = affinityBars(met, 8).filter((bar) => verdictOf(bar) === 'not measured');
  t.is(unmeasured.length, 7);
  t.true(unmeasured.every(({ claim }) => claim.startsWith(nameOf('prefix', 1))));
  t.true(affinityBars([], 8).every((bar) => verdictOf(bar) === 'not measured'));
});

test('each bar is missed by a figure beyond it', (t) => {
  const withPrefix = (figures: Partial<AffinityFigures>) => [run(prefix, figures), ...met.slice(1)];
  t.true(missed(withPrefix({ cached: 0.63 })).includes(`${prefix}: cached tokens, relative to the ideal`));
  t.deepEqual(missed(withPrefix({ firstTokenP50Ms: 251 })), [`${prefix}: first token p50, relative to none`]);
  t.true(missed(withPrefix({ firstTokenP99Ms: 946 })).includes(`${prefix}: first token p99, relative to none`));
  t.deepEqual(missed(withPrefix({ mostCalls: 1.31 })), [`${prefix}: most loaded server, by calls`]);
  const shared = run(prefix, { mostCalls: 1.31 }, { scenario: 'shared' });
  t.deepEqual(missed([...met.slice(0, 4), shared]), [`${prefix}: most loaded server with a shared prompt, by calls`]);
  t.deepEqual(missed(withPrefix({ atOnce: 9 })), ['most calls at once of a server']);
  t.deepEqual(missed(withPrefix({ failed: 1 })), ['failed requests']);
  const books = { overAdmitted: 0, lostUsage: 0, duplicates: 1 };
  t.deepEqual(missed(withPrefix({ books })), ['over-admitted requests, lost tokens and duplicates']);
});

test('the better policy of SMG counts for each figure', (t) => {
  const cached = `${prefix}: cached tokens, relative to the better policy of SMG`;
  const p99 = `${prefix}: first token p99, relative to the better policy of SMG`;
  t.deepEqual([barOf(met, cached)?.[1], barOf(met, p99)?.[1]], ['met', 'met']);
  const better = [...met.slice(0, 3), run(smgNames.cache_aware, { ...peer, cached: 0.71, firstTokenP99Ms: 440 })];
  t.deepEqual(missed(better), [cached, p99]);
});

test('a ratio is computed within each round, and its median over the rounds is judged', (t) => {
  const rounds = [60, 100, 200].flatMap((firstTokenP50Ms, index) => [
    run(prefix, { firstTokenP50Ms }, { round: index + 1 }),
    run(none, { ...slow, firstTokenP50Ms: 400 }, { round: index + 1 }),
  ]);
  t.deepEqual(barOf(rounds, `${prefix}: first token p50, relative to none`), [0.25, 'met']);
});

test('a run is wrong if a request failed, its books do not agree, or a server had too many calls; a peer is not judged', (t) => {
  t.false(isWrong(run(prefix), 8));
  t.true(isWrong(run(prefix, { failed: 1 }), 8));
  t.true(isWrong(run(prefix, { atOnce: 9 }), 8));
  t.true(isWrong(run(none, { books: { overAdmitted: 0, lostUsage: 3, duplicates: 0 } }), 8));
  t.false(isWrong(run(smgNames.cache_aware, peer), 8));
});

test('a server that leaves may move chats of others no more than load does, and keys may cost 15 µs', (t) => {
  const moved = (count: number) => [{ turns: 100, moved: count, callsOfLeaving: 0, failed: 0 }];
  const shareOf = (leaves: number, stays: number) =>
    leavingBar({ leaves: moved(leaves), stays: moved(stays) }).measured;
  t.is(shareOf(5, 5), 0);
  t.true(Math.abs((shareOf(9, 5) ?? 0) - 0.04) < 1e-9);
  t.is(leavingBar({ leaves: [], stays: [] }).measured, undefined);
  t.like(keyBar({ prefix: 7, none: 1 }), { measured: 6, atMost: 15 });
});
