import test from 'ava';
import { oneAtATime } from '../../../../workers/batches/scheduler/one-at-a-time.ts';

/** Work that is done when it is told to be. */
function open() {
  const stop = new AbortController();
  const begun: PromiseWithResolvers<void>[] = [];
  const ask = oneAtATime(() => {
    const work = Promise.withResolvers<void>();
    begun.push(work);
    return work.promise;
  }, stop.signal);
  return { ask, begun, stop: () => stop.abort() };
}

test('what is asked for while it is done is done once more, however often it was asked for', async (t) => {
  const { ask, begun } = open();
  const first = ask();
  for (let times = 0; times < 5; times++) await ask();
  t.is(begun.length, 1);
  begun[0]?.resolve();
  while (begun.length < 2) await Promise.resolve();
  begun[1]?.resolve();
  await first;
  t.is(begun.length, 2);
  void ask();
  t.is(begun.length, 3);
});

test('nothing is begun any more once it is to stop', async (t) => {
  const { ask, begun, stop } = open();
  const first = ask();
  void ask();
  stop();
  begun[0]?.resolve();
  await first;
  await ask();
  t.is(begun.length, 1);
});

test('work that has failed is begun again when it is asked for', async (t) => {
  const { ask, begun } = open();
  const first = ask();
  const failure = new Error('no');
  begun[0]?.reject(failure);
  await t.throwsAsync(first, { is: failure });
  void ask();
  t.is(begun.length, 2);
});
