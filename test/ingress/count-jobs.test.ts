import { setTimeout as sleep } from 'node:timers/promises';
import test from 'ava';
import { countJobs } from '../../ingress/count-jobs.ts';

type Counted = { pool: string; jobs: number | undefined };

/** Keeps every count, and tells when there are so many. */
function recordCounts() {
  const counts: Counted[] = [];
  const watchers = new Set<() => void>();
  const beginCount = (pool: string) => (jobs: number | undefined) => {
    counts.push({ pool, jobs });
    for (const look of watchers) look();
  };
  const until = (fits: (counts: readonly Counted[]) => boolean) =>
    new Promise<void>((resolve) => {
      const look = () => fits(counts) && resolve();
      watchers.add(look);
      look();
    });
  return { counts, bounds: { beginCount, whenUseful: async () => {} }, until };
}

test('each pool is counted again and again; one that cannot be is not known, and holds up neither itself nor another', async (t) => {
  const { counts, bounds, until } = recordCounts();
  let calls = 0;
  const depth = async (pool: string) => {
    if (pool === 'large') return 7;
    calls += 1;
    if (calls === 2) throw new Error('Redis is away');
    return calls;
  };
  using _counting = countJobs({ pools: ['default', 'large'], depth, bounds, everyMs: 1 });
  await until((all) => all.filter(({ pool }) => pool === 'default').length >= 3 && all.length >= 6);
  const ofDefault = counts.filter(({ pool }) => pool === 'default').map(({ jobs }) => jobs);
  t.deepEqual(ofDefault.slice(0, 3), [1, undefined, 3]);
  t.true(counts.some(({ pool, jobs }) => pool === 'large' && jobs === 7));
});

test('a pool that does not answer is asked once and not again and again, and others are counted meanwhile', async (t) => {
  const { counts, bounds, until } = recordCounts();
  let asked = 0;
  const depth = (pool: string) => {
    if (pool === 'default') return Promise.resolve(1);
    asked += 1;
    return new Promise<number>(() => {});
  };
  using _counting = countJobs({ pools: ['default', 'large'], depth, bounds, everyMs: 1 });
  await until((all) => all.length >= 5);
  t.is(asked, 1);
  t.true(counts.every(({ pool }) => pool === 'default'));
});

test('a pool is counted again only when that is of use', async (t) => {
  const { counts, bounds, until } = recordCounts();
  let useful = Promise.withResolvers<void>();
  const whenUseful = () => useful.promise;
  using _counting = countJobs({
    ...{ pools: ['default'], depth: async () => 0, bounds: { ...bounds, whenUseful }, everyMs: 1 },
  });
  await until((all) => all.length === 1);
  await sleep(20);
  t.is(counts.length, 1);
  const { resolve } = useful;
  useful = Promise.withResolvers();
  resolve();
  await until((all) => all.length === 2);
});

test('nothing is counted once it is disposed of', async (t) => {
  const { counts, bounds, until } = recordCounts();
  const counting = countJobs({ pools: ['default'], depth: async () => 1, bounds, everyMs: 5 });
  await until((all) => all.length >= 1);
  counting[Symbol.dispose]();
  const before = counts.length;
  await sleep(50);
  t.true(counts.length <= before + 1, 'one may have been on its way');
});
