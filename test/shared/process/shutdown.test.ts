import { stat } from 'node:fs/promises';
import test from 'ava';
import { within } from '../../../shared/process/shutdown.ts';

const never = new Promise(() => {});

test('what ends in time is told from what does not, and a failure is passed on', async (t) => {
  t.true(await within(1_000, Promise.resolve()));
  t.false(await within(1, never));
  await t.throwsAsync(within(1_000, Promise.reject(new Error('of its own'))), { message: 'of its own' });
});

test('what has ended in time is not late when the process was held up', async (t) => {
  const isInTime = within(50, stat('.'));
  const until = performance.now() + 200;
  while (performance.now() < until);
  t.true(await isInTime);
});
