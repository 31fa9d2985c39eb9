import type { ExecutionContext } from 'ava';
import test from 'ava';
import type { Lane } from '../../../shared/redis/keys.ts';
import { createWaitingJobs } from '../../../workers/backends/waiting-jobs.ts';

type Ask = { name: string; holder: string; lane: Lane; waitMs: number; signal: AbortSignal };

/** Jobs that wait for the given amount of room. */
function open(t: ExecutionContext) {
  let room = 0;
  const served: string[] = [];
  let asked = 0;
  const waiting = createWaitingJobs<Ask, string>({
    answer({ name, holder }) {
      asked++;
      if (room === 0 || holder === 'user:held-back') return undefined;
      room--;
      served.push(name);
      return `room for ${name}`;
    },
    alike: ({ name }) => name.split(' ')[0] ?? '',
    isHeldBack: ({ holder }) => holder === 'user:held-back',
    late: 'late',
  });
  t.teardown(() => waiting[Symbol.dispose]());
  const { signal } = new AbortController();
  return {
    ...{ waiting, served },
    asked: () => asked,
    wait: (name: string, lane: Lane = 'interactive', given: Partial<Ask> = {}) =>
      waiting.wait({ name, holder: 'user:a', lane, waitMs: 60_000, signal, ...given }),
    give(more: number): void {
      room += more;
      waiting.serve();
    },
  };
}

test('lines of batches get room after all requests, and each lane in the order of asking', (t) => {
  const { wait, give, served } = open(t);
  void wait('line 1', 'batch');
  void wait('request 1');
  void wait('line 2', 'batch');
  void wait('request 2');
  give(3);
  t.deepEqual(served, ['request 1', 'request 2', 'line 1']);
  void wait('request 3');
  give(2);
  t.deepEqual(served, ['request 1', 'request 2', 'line 1', 'request 3', 'line 2']);
});

test('a job that is held back by its own account holds back only those of this account', (t) => {
  const { wait, give, served, asked } = open(t);
  for (let each = 1; each <= 100; each += 1) void wait(`request ${each}`, 'interactive', { holder: 'user:held-back' });
  void wait('request 101');
  give(1);
  t.deepEqual(served, ['request 101']);
  t.is(asked(), 2);
});

test('of jobs that would get the same result, one is checked if there is no room for it', (t) => {
  const { wait, give, served, asked } = open(t);
  for (let each = 1; each <= 100; each += 1) void wait(`request ${each}`);
  for (let each = 1; each <= 100; each += 1) void wait(`line ${each}`, 'batch');
  give(0);
  t.is(asked(), 2);
  give(3);
  t.deepEqual(served, ['request 1', 'request 2', 'request 3']);
  t.is(asked(), 2 + 3 + 2);
});

test('a waiting job gets its result once, and no longer waits', async (t) => {
  const { wait, give, waiting } = open(t);
  const line = wait('line', 'batch');
  t.is(waiting.count(), 1);
  give(1);
  t.is(await line, 'room for line');
  t.is(waiting.count(), 0);
});

test('a job whose time is over, or that is aborted, is late and takes no room', async (t) => {
  const { wait, give, served, waiting } = open(t);
  const stop = new AbortController();
  const aborted = wait('aborted', 'batch', { signal: stop.signal });
  const late = wait('late', 'batch', { waitMs: 5 });
  stop.abort();
  t.is(await aborted, 'late');
  t.is(await late, 'late');
  give(1);
  t.deepEqual(served, []);
  t.is(waiting.count(), 0);
});

test('room that comes only with time is found without a call', async (t) => {
  let isRoom = false;
  const waiting = createWaitingJobs<Ask, string>({
    answer: () => (isRoom ? 'room' : undefined),
    alike: () => '',
    isHeldBack: () => false,
    late: 'late',
  });
  t.teardown(() => waiting[Symbol.dispose]());
  const { signal } = new AbortController();
  const line = waiting.wait({ name: 'line', holder: 'user:a', lane: 'batch', waitMs: 10_000, signal });
  const held = setTimeout(() => {}, 10_000); // its timer keeps no process alive
  isRoom = true;
  t.is(await line, 'room');
  clearTimeout(held);
});

test('when it is disposed of, all waiting jobs are late', async (t) => {
  const { wait, waiting } = open(t);
  const all = [wait('request'), wait('line', 'batch')];
  waiting[Symbol.dispose]();
  t.deepEqual(await Promise.all(all), ['late', 'late']);
});
