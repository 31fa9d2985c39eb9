import test from 'ava';
import { createQueueBounds, type Entry, type Place } from '../../ingress/queue-bounds.ts';

const pool = 'default';
const plenty = { depthMax: 1_000, bytesMax: 1_000_000 };

function placeOf(entry: Entry): Place {
  if ('full' in entry) throw new Error(`full: ${entry.full}`);
  return entry.place;
}

/** As if a count were over in no time. */
function count(bounds: ReturnType<typeof createQueueBounds>, jobs: number | undefined, name = pool): void {
  bounds.beginCount(name)(jobs);
}

test('lets in as many jobs as may wait and not one more, those that others have queued among them', (t) => {
  const bounds = createQueueBounds({ ...plenty, depthMax: 5 });
  count(bounds, 3);
  t.true('place' in bounds.enter({ pool, bytes: 1 }));
  t.true('place' in bounds.enter({ pool, bytes: 1 }));
  t.deepEqual(bounds.enter({ pool, bytes: 1 }), { full: 'jobs' });
});

test('a burst between two counts does not pass the bound', (t) => {
  const bounds = createQueueBounds({ ...plenty, depthMax: 5 });
  count(bounds, 0);
  const entries = Array.from({ length: 5_000 }, () => bounds.enter({ pool, bytes: 1 }));
  t.is(entries.filter((entry) => 'place' in entry).length, 5);
});

test('a request counts once: by itself until a count must have its job, from then on with that', (t) => {
  const bounds = createQueueBounds({ ...plenty, depthMax: 2 });
  count(bounds, 0);
  placeOf(bounds.enter({ pool, bytes: 1 })).queued();
  const endEarly = bounds.beginCount(pool);
  const second = placeOf(bounds.enter({ pool, bytes: 1 }));
  second.queued();
  endEarly(1);
  t.deepEqual(bounds.enter({ pool, bytes: 1 }), { full: 'jobs' }, 'the second was queued after the count began');
  count(bounds, 1);
  t.true('place' in bounds.enter({ pool, bytes: 1 }), 'one has started, and the count says so');
});

test('one that is still on its way to the queue counts although the last count missed it', (t) => {
  const bounds = createQueueBounds({ ...plenty, depthMax: 1 });
  count(bounds, 0);
  const place = placeOf(bounds.enter({ pool, bytes: 1 }));
  count(bounds, 0);
  t.deepEqual(bounds.enter({ pool, bytes: 1 }), { full: 'jobs' });
  place.queued();
  count(bounds, 0);
  t.true('place' in bounds.enter({ pool, bytes: 1 }), 'counted after it was queued, and gone: it has started');
});

test('one that starts makes room at once where no count had it yet', (t) => {
  const bounds = createQueueBounds({ ...plenty, depthMax: 1 });
  count(bounds, 0);
  for (let index = 0; index < 100; index++) {
    const place = placeOf(bounds.enter({ pool, bytes: 1 }));
    place.queued();
    place.leave();
  }
  t.true('place' in bounds.enter({ pool, bytes: 1 }));
});

test('one that starts makes room at once also where the last count had it', (t) => {
  const bounds = createQueueBounds({ ...plenty, depthMax: 2 });
  const places = [1, 2].map(() => placeOf(bounds.enter({ pool, bytes: 1 })));
  for (const place of places) place.queued();
  count(bounds, 2);
  t.deepEqual(bounds.enter({ pool, bytes: 1 }), { full: 'jobs' });
  for (const place of places) place.leave();
  for (const place of places) place.leave();
  t.true('place' in bounds.enter({ pool, bytes: 1 }));
  t.true('place' in bounds.enter({ pool, bytes: 1 }));
  t.deepEqual(bounds.enter({ pool, bytes: 1 }), { full: 'jobs' });
});

test('nobody is held up by a depth that is not known, neither before the first count nor after one that failed', (t) => {
  const bounds = createQueueBounds({ ...plenty, depthMax: 1 });
  placeOf(bounds.enter({ pool, bytes: 1 })).leave();
  count(bounds, 1);
  t.deepEqual(bounds.enter({ pool, bytes: 1 }), { full: 'jobs' });
  count(bounds, undefined);
  t.true('place' in bounds.enter({ pool, bytes: 1 }));
  count(bounds, 1);
  t.deepEqual(bounds.enter({ pool, bytes: 1 }), { full: 'jobs' });
});

test('a full pool holds up no other', (t) => {
  const bounds = createQueueBounds({ ...plenty, depthMax: 1 });
  count(bounds, 1);
  count(bounds, 0, 'large');
  t.deepEqual(bounds.enter({ pool, bytes: 1 }), { full: 'jobs' });
  t.true('place' in bounds.enter({ pool: 'large', bytes: 1 }));
});

test('bodies that have not started stay within the bound in bytes, over all pools', (t) => {
  const bounds = createQueueBounds({ ...plenty, bytesMax: 10 });
  const first = placeOf(bounds.enter({ pool, bytes: 6 }));
  placeOf(bounds.enter({ pool: 'large', bytes: 4 }));
  t.is(bounds.bytesWaiting(), 10);
  t.deepEqual(bounds.enter({ pool, bytes: 1 }), { full: 'bytes' });
  first.leave();
  first.leave();
  t.is(bounds.bytesWaiting(), 4);
  t.deepEqual(bounds.enter({ pool, bytes: 7 }), { full: 'bytes' });
  placeOf(bounds.enter({ pool, bytes: 6 }));
});

test('a body larger than the whole bound passes where nothing else waits', (t) => {
  const bounds = createQueueBounds({ ...plenty, bytesMax: 10 });
  const large = placeOf(bounds.enter({ pool, bytes: 11 }));
  t.deepEqual(bounds.enter({ pool, bytes: 1 }), { full: 'bytes' });
  large.leave();
  t.is(bounds.bytesWaiting(), 0);
});
