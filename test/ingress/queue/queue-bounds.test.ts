import { setImmediate as nextTurn } from 'node:timers/promises';
import test from 'ava';
import { createQueueBounds, type QueueEntry, type QueuePlace } from '../../../ingress/queue/queue-bounds.ts';

const model = 'small-chat';
let time = 0;
const plenty = { models: () => [model, 'large-chat'], depthMax: 1_000, bytesMax: 1_000_000, now: () => time };

/** A new account each time. */
let accounts = 0;
const anyone = () => `user:${accounts++}`;

function placeOf(entry: QueueEntry): QueuePlace {
  if ('full' in entry) throw new Error(`full: ${entry.full}`);
  return entry.place;
}

/** A count of the jobs of this model that began at `begunAt`, after all earlier steps. */
function count(bounds: ReturnType<typeof createQueueBounds>, jobs: number | undefined, begunAt = ++time): void {
  const of = (name: string) => (name === model ? (jobs ?? 0) : 0);
  bounds.counted(jobs === undefined ? undefined : { begunAt, of, takenOf: () => 0 });
}

test('admits exactly as many jobs as may wait, including those of other ingresses', (t) => {
  const bounds = createQueueBounds({ ...plenty, depthMax: 5 });
  count(bounds, 3);
  t.true('place' in bounds.enter({ model, account: anyone(), bytes: 1 }));
  t.true('place' in bounds.enter({ model, account: anyone(), bytes: 1 }));
  t.deepEqual(bounds.enter({ model, account: anyone(), bytes: 1 }), { full: 'jobs' });
});

test('a burst between two counts does not exceed the bound', (t) => {
  const bounds = createQueueBounds({ ...plenty, depthMax: 5 });
  count(bounds, 0);
  const entries = Array.from({ length: 5_000 }, () => bounds.enter({ model, account: anyone(), bytes: 1 }));
  t.is(entries.filter((entry) => 'place' in entry).length, 5);
});

test('a request counts once: separately until a count must include its job, and as part of the count after that', (t) => {
  const bounds = createQueueBounds({ ...plenty, depthMax: 2 });
  count(bounds, 0);
  placeOf(bounds.enter({ model, account: anyone(), bytes: 1 })).queued();
  const early = ++time;
  const second = placeOf(bounds.enter({ model, account: anyone(), bytes: 1 }));
  second.queued();
  count(bounds, 1, early);
  t.deepEqual(
    bounds.enter({ model, account: anyone(), bytes: 1 }),
    { full: 'jobs' },
    'the second was queued after the count began',
  );
  count(bounds, 1);
  t.true('place' in bounds.enter({ model, account: anyone(), bytes: 1 }), 'one has started, as the count shows');
});

test('a request that is not queued yet counts although the last count missed it', (t) => {
  const bounds = createQueueBounds({ ...plenty, depthMax: 1 });
  count(bounds, 0);
  const place = placeOf(bounds.enter({ model, account: anyone(), bytes: 1 }));
  count(bounds, 0);
  t.deepEqual(bounds.enter({ model, account: anyone(), bytes: 1 }), { full: 'jobs' });
  place.queued();
  count(bounds, 0);
  t.true(
    'place' in bounds.enter({ model, account: anyone(), bytes: 1 }),
    'counted after it was queued, and gone: it has started',
  );
});

test('a job that starts makes room immediately if no count included it', (t) => {
  const bounds = createQueueBounds({ ...plenty, depthMax: 1 });
  count(bounds, 0);
  for (let index = 0; index < 100; index++) {
    const place = placeOf(bounds.enter({ model, account: anyone(), bytes: 1 }));
    place.queued();
    place.leave();
  }
  t.true('place' in bounds.enter({ model, account: anyone(), bytes: 1 }));
});

test('a job that starts makes room immediately even if the last count included it', (t) => {
  const bounds = createQueueBounds({ ...plenty, depthMax: 2 });
  const places = [1, 2].map(() => placeOf(bounds.enter({ model, account: anyone(), bytes: 1 })));
  for (const place of places) place.queued();
  count(bounds, 2);
  t.deepEqual(bounds.enter({ model, account: anyone(), bytes: 1 }), { full: 'jobs' });
  for (const place of places) place.leave();
  for (const place of places) place.leave();
  t.true('place' in bounds.enter({ model, account: anyone(), bytes: 1 }));
  t.true('place' in bounds.enter({ model, account: anyone(), bytes: 1 }));
  t.deepEqual(bounds.enter({ model, account: anyone(), bytes: 1 }), { full: 'jobs' });
});

test('an unknown depth refuses no request, before the first count and after a failed one', (t) => {
  const bounds = createQueueBounds({ ...plenty, depthMax: 1 });
  placeOf(bounds.enter({ model, account: anyone(), bytes: 1 })).leave();
  count(bounds, 1);
  t.deepEqual(bounds.enter({ model, account: anyone(), bytes: 1 }), { full: 'jobs' });
  count(bounds, undefined);
  t.true('place' in bounds.enter({ model, account: anyone(), bytes: 1 }));
  count(bounds, 1);
  t.deepEqual(bounds.enter({ model, account: anyone(), bytes: 1 }), { full: 'jobs' });
});

test('a full model does not affect others', (t) => {
  const bounds = createQueueBounds({ ...plenty, depthMax: 1 });
  count(bounds, 1);
  t.deepEqual(bounds.enter({ model, account: anyone(), bytes: 1 }), { full: 'jobs' });
  t.true('place' in bounds.enter({ model: 'large-chat', account: anyone(), bytes: 1 }));
});

test('bodies that have not started stay within the bound in bytes, over all models', (t) => {
  const bounds = createQueueBounds({ ...plenty, bytesMax: 10 });
  const first = placeOf(bounds.enter({ model, account: anyone(), bytes: 6 }));
  placeOf(bounds.enter({ model: 'large-chat', account: anyone(), bytes: 4 }));
  t.is(bounds.bytesWaiting(), 10);
  t.deepEqual(bounds.enter({ model, account: anyone(), bytes: 1 }), { full: 'bytes' });
  first.leave();
  first.leave();
  t.is(bounds.bytesWaiting(), 4);
  t.deepEqual(bounds.enter({ model, account: anyone(), bytes: 7 }), { full: 'bytes' });
  placeOf(bounds.enter({ model, account: anyone(), bytes: 6 }));
});

test('a body larger than the bound is admitted if nothing else waits', (t) => {
  const bounds = createQueueBounds({ ...plenty, bytesMax: 10 });
  const large = placeOf(bounds.enter({ model, account: anyone(), bytes: 11 }));
  t.deepEqual(bounds.enter({ model, account: anyone(), bytes: 1 }), { full: 'bytes' });
  large.leave();
  t.is(bounds.bytesWaiting(), 0);
});

function shareOf(entry: QueueEntry): number | undefined {
  if ('full' in entry) throw new Error(`full: ${entry.full}`);
  return entry.requestsAtOnceMax;
}

test('beyond half of the jobs each account may have a quarter of them at once, for that model only', (t) => {
  const bounds = createQueueBounds({ ...plenty, depthMax: 100 });
  const ask = (jobs: number | undefined) => {
    count(bounds, jobs);
    const entry = bounds.enter({ model, account: 'user:a', bytes: 1 });
    placeOf(entry).leave();
    return shareOf(entry);
  };
  t.is(ask(undefined), undefined);
  t.is(ask(50), undefined);
  t.is(ask(51), 25);
  t.is(ask(99), 25);
  t.is(shareOf(bounds.enter({ model: 'large-chat', account: 'user:a', bytes: 1 })), undefined);
  const small = createQueueBounds({ ...plenty, depthMax: 3 });
  count(small, 2);
  t.is(shareOf(small.enter({ model, account: 'user:a', bytes: 1 })), 1, 'never none');
});

test('beyond half of the bytes an account that would have more than a quarter of them gets no more requests', (t) => {
  const bounds = createQueueBounds({ ...plenty, bytesMax: 1_000 });
  const enter = (account: string, bytes: number) => bounds.enter({ model, account, bytes });
  t.is(shareOf(enter('user:a', 400)), undefined);
  t.is(shareOf(enter('user:a', 100)), undefined, 'exactly half is waiting');
  const over = enter('user:a', 1);
  t.is(shareOf(over), 0);
  placeOf(over).leave();
  t.is(shareOf(enter('user:b', 250)), undefined, 'exactly a quarter');
  const another = enter('user:b', 1);
  t.is(shareOf(another), 0);
  placeOf(another).leave();
  t.is(shareOf(enter('user:c', 250)), undefined);
  t.is(bounds.bytesWaiting(), 1_000);
});

test('a body that is larger than a quarter passes if its account has none waiting', (t) => {
  const bounds = createQueueBounds({ ...plenty, bytesMax: 1_000 });
  placeOf(bounds.enter({ model, account: 'user:a', bytes: 300 }));
  const first = bounds.enter({ model, account: 'user:b', bytes: 600 });
  t.is(shareOf(first), undefined);
  const second = bounds.enter({ model, account: 'user:b', bytes: 10 });
  t.is(shareOf(second), 0);
  placeOf(second).leave();
  placeOf(first).leave();
  t.is(shareOf(bounds.enter({ model, account: 'user:b', bytes: 600 })), undefined, 'it has left');
});

test('beyond half of the jobs requests of an account beyond its share take no place of others', (t) => {
  const bounds = createQueueBounds({ ...plenty, depthMax: 100 });
  count(bounds, 51);
  const asked = Array.from({ length: 1_000 }, () => bounds.enter({ model, account: 'user:a', bytes: 1 }));
  t.deepEqual(
    [25, 0].map((share) => asked.filter((entry) => shareOf(entry) === share).length),
    [25, 975],
  );
  t.is(bounds.bytesWaiting(), 25);
  t.is(shareOf(bounds.enter({ model, account: 'user:b', bytes: 1 })), 25);
  for (const entry of asked) placeOf(entry).leave();
  t.is(shareOf(bounds.enter({ model, account: 'user:a', bytes: 1 })), 25, 'those with a place have left');
});

test('accounts with one holder have one share of jobs and of bytes, and each has its own turns', (t) => {
  const bounds = createQueueBounds({ ...plenty, depthMax: 100, bytesMax: 1_000 });
  count(bounds, 51);
  const device = (name: string, bytes: number) =>
    bounds.enter({ model, account: `device:${name}`, holder: 'devices', bytes });
  const first = placeOf(device('one', 1));
  first.latestTurn.turn = 7;
  t.is(placeOf(device('other', 1)).latestTurn.turn, 0);
  t.is(placeOf(device('one', 1)).latestTurn.turn, 7);
  const entries = Array.from({ length: 40 }, (_, index) => device(String(index), 1));
  t.is(entries.filter((entry) => shareOf(entry) === 0).length, 18, '25 places in all');
  t.is(shareOf(bounds.enter({ model, account: 'user:a', bytes: 500 })), 25);
  for (const entry of entries) placeOf(entry).leave();
  t.is(shareOf(device('new', 1)), 25);
  t.is(shareOf(device('large', 250)), 0, 'together more than a quarter of the bytes');
});

test('a count is needed after a request has entered, while jobs wait, places are taken or the count is unknown', async (t) => {
  const bounds = createQueueBounds(plenty);
  const isUseful = async () => {
    let useful = false;
    void bounds.whenUseful().then(() => {
      useful = true;
    });
    await nextTurn();
    return useful;
  };
  const after = async (jobs: number | undefined) => {
    count(bounds, jobs);
    return isUseful();
  };
  t.deepEqual(
    [await after(0), await after(1), await after(0), await after(undefined), await after(0)],
    [...[false, true, false, true, false]],
  );
  const waiting = bounds.whenUseful();
  const place = placeOf(bounds.enter({ model, account: 'user:a', bytes: 1 }));
  await waiting;
  t.true(await after(0), 'it is not in the queue yet');
  place.queued();
  t.false(await after(0), 'a worker has it');
  t.false(await isUseful());
});
