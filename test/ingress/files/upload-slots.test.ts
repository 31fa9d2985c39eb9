import test from 'ava';
import { createUploadSlots } from '../../../ingress/files/upload-file.ts';

test('an account can have its limit of concurrent uploads, and one more when one has ended', (t) => {
  const slots = createUploadSlots({ uploadsMax: 10, ofAccountMax: 2 });
  const first = slots.enter('user:a');
  slots.enter('user:a');
  const refused = t.throws(() => slots.enter('user:a'));
  t.like(refused, { code: 'rate_limit_exceeded', retryAfterMs: 1_000, fields: { type: 'concurrency_limit' } });
  slots.enter('user:b');
  first.leave();
  slots.enter('user:a');
  t.throws(() => slots.enter('user:a'));
});

test('beyond the limit of this ingress all accounts get 503 with a wait, until an upload has ended', (t) => {
  const slots = createUploadSlots({ uploadsMax: 3, ofAccountMax: 2 });
  const first = slots.enter('user:a');
  slots.enter('user:b');
  slots.enter('user:c');
  t.like(
    t.throws(() => slots.enter('user:d')),
    { code: 'SERVICE_UNAVAILABLE', retryAfterMs: 1_000 },
  );
  first.leave();
  slots.enter('user:d');
  t.throws(() => slots.enter('user:a'));
});

test('if all slots are taken, the slowest upload is ended, unless all are fast or new', (t) => {
  let now = 0;
  const slots = createUploadSlots({ uploadsMax: 3, ofAccountMax: 1, now: () => now });
  const [slow, slower, fast] = ['slow', 'slower', 'fast'].map((account) => slots.enter(account));
  slow?.received(2_000);
  slower?.received(1_000);
  fast?.received(400_000);
  now = 4_999;
  t.throws(() => slots.enter('too soon'), { message: /Too many files/ });
  now = 5_000;
  slots.enter('first');
  t.deepEqual(
    [slow, slower, fast].map((slot) => slot?.signal.aborted),
    [false, true, false],
  );
  t.like(slower?.signal.reason, { code: 'REQUEST_TIMEOUT' });
  t.throws(() => slots.enter('slower'), { message: /At most 1 files/ }, 'it counts for its account until it has ended');
  slower?.leave();
  slots.enter('slower');
  t.true(slow?.signal.aborted);
  t.throws(() => slots.enter('another'), { code: 'SERVICE_UNAVAILABLE' }, 'the others are fast or new');
  slow?.leave();
  t.throws(() => slots.enter('another'), { code: 'SERVICE_UNAVAILABLE' }, 'its slot was reused before it left');
  fast?.leave();
  t.notThrows(() => slots.enter('another'));
});

test('if all slots are taken, a new and slow upload of an account with more uploads is ended, and a fast one is not', (t) => {
  let now = 0;
  const slots = createUploadSlots({ uploadsMax: 4, ofAccountMax: 3, now: () => now });
  const many = [1, 2, 3].map(() => slots.enter('many'));
  const only = slots.enter('only');
  now = 100;
  for (const slot of many.slice(0, 2)) slot.received(65_536);
  many[2]?.received(1);
  slots.enter('first');
  t.deepEqual(
    [...many, only].map(({ signal }) => signal.aborted),
    [false, false, true, false],
  );
  t.like(many[2]?.signal.reason, { code: 'REQUEST_TIMEOUT' });
  t.throws(
    () => slots.enter('second'),
    { code: 'SERVICE_UNAVAILABLE' },
    'the others are fast, or the only one of their account',
  );
});

test('clients that restart repeatedly block no other account', (t) => {
  let now = 0;
  const slots = createUploadSlots({ uploadsMax: 8, ofAccountMax: 4, now: () => now });
  for (let round = 0; round < 20; round++) {
    now += 1_000;
    const trickling = ['eve', 'mallory'].flatMap((account) => [1, 2, 3, 4].map(() => slots.enter(account)));
    t.notThrows(() => slots.enter('ann').leave());
    for (const slot of trickling) slot.leave();
  }
});
