import test from 'ava';
import { oneAtATime } from '../../../workers/batches/account-scheduler.ts';

/** Work that ends when the test resolves it. */
function open() {
  const stop = new AbortController();
  const started: PromiseWithResolvers<void>[] = [];
  const request = oneAtATime(() => {
    const work = Promise.withResolvers<void>();
    started.push(work);
    return work.promise;
  }, stop.signal);
  return { request, started, stop: () => stop.abort() };
}

test('work that is requested while it runs, once or often, runs once more', async (t) => {
  const { request, started } = open();
  const first = request();
  for (let times = 0; times < 5; times++) await request();
  t.is(started.length, 1);
  started[0]?.resolve();
  while (started.length < 2) await Promise.resolve();
  started[1]?.resolve();
  await first;
  t.is(started.length, 2);
  void request();
  t.is(started.length, 3);
});

test('no work starts after the signal is aborted', async (t) => {
  const { request, started, stop } = open();
  const first = request();
  void request();
  stop();
  started[0]?.resolve();
  await first;
  await request();
  t.is(started.length, 1);
});

test('work that failed starts again on the next request', async (t) => {
  const { request, started } = open();
  const first = request();
  const failure = new Error('failed');
  started[0]?.reject(failure);
  await t.throwsAsync(first, { is: failure });
  void request();
  t.is(started.length, 2);
});
