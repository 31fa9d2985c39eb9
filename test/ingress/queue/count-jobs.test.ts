import { setTimeout as sleep } from 'node:timers/promises';
import test from 'ava';
import { countJobs } from '../../../ingress/queue/open-queues.ts';
import type { Depths } from '../../../ingress/queue/queue-bounds.ts';

/** Keeps every count, and resolves when there are `number` counts. */
function recordCounts() {
  const counts: (number | undefined)[] = [];
  const watchers = new Set<() => void>();
  const counted = (depths: Depths | undefined) => {
    counts.push(depths?.of('small-chat', 'interactive'));
    for (const look of watchers) look();
  };
  const until = (fits: (counts: readonly unknown[]) => boolean) =>
    new Promise<void>((resolve) => {
      const look = () => fits(counts) && resolve();
      watchers.add(look);
      look();
    });
  return { counts, bounds: { counted, whenUseful: async () => {} }, until };
}

const depths = (jobs: number): Depths => ({ begunAt: 0, of: () => jobs, takenOf: () => 0 });

test('jobs are counted repeatedly; after a failed count the number is unknown, and the next count follows', async (t) => {
  const { counts, bounds, until } = recordCounts();
  let calls = 0;
  const read = async () => {
    calls += 1;
    if (calls === 2) throw new Error('Redis is unavailable');
    return depths(calls);
  };
  using _counting = countJobs({ depths: { read }, bounds, everyMs: 1 });
  await until((all) => all.length >= 3);
  t.deepEqual(counts.slice(0, 3), [1, undefined, 3]);
});

test('a Redis that does not answer is asked only once', async (t) => {
  const { bounds } = recordCounts();
  let asked = 0;
  const read = () => {
    asked += 1;
    return new Promise<Depths>(() => {});
  };
  using _counting = countJobs({ depths: { read }, bounds, everyMs: 1 });
  await sleep(30);
  t.is(asked, 1);
});

test('jobs are counted again only when the count is needed', async (t) => {
  const { counts, bounds, until } = recordCounts();
  let useful = Promise.withResolvers<void>();
  const whenUseful = () => useful.promise;
  using _counting = countJobs({
    depths: { read: async () => depths(0) },
    bounds: { ...bounds, whenUseful },
    everyMs: 1,
  });
  await until((all) => all.length === 1);
  await sleep(20);
  t.is(counts.length, 1);
  const { resolve } = useful;
  useful = Promise.withResolvers();
  resolve();
  await until((all) => all.length === 2);
});

test('nothing is counted after disposal', async (t) => {
  const { counts, bounds, until } = recordCounts();
  const counting = countJobs({ depths: { read: async () => depths(1) }, bounds, everyMs: 5 });
  await until((all) => all.length >= 1);
  counting[Symbol.dispose]();
  const before = counts.length;
  await sleep(50);
  t.true(counts.length <= before + 1, 'one may have been in progress');
});
