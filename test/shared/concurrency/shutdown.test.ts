import { stat } from 'node:fs/promises';
import test from 'ava';
import { within } from '../../../shared/concurrency/shutdown.ts';

const never = new Promise(() => {});

test('returns whether the promise settles in time, and passes on its failure', async (t) => {
  t.true(await within(1_000, Promise.resolve()));
  t.false(await within(1, never));
  await t.throwsAsync(within(1_000, Promise.reject(new Error('failed'))), { message: 'failed' });
});

test('a promise that has settled in time is not late if the process was blocked', async (t) => {
  const isInTime = within(50, stat('.'));
  const until = performance.now() + 200;
  while (performance.now() < until);
  t.true(await isInTime);
});
