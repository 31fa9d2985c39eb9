import test from 'ava';
import { storeUnavailable } from '../../../shared/store/adapters/store-errors.ts';
import { createPatience } from '../../../workers/reconcile/reconcile-patience.ts';

const never = new AbortController().signal;

test('what fails for a while is repeated until it works', async (t) => {
  const patiently = createPatience({ patienceMs: 60_000, signal: never });
  let calls = 0;
  const work = async () => {
    calls += 1;
    if (calls < 3) throw storeUnavailable(new Error('away'));
    return 'there';
  };
  t.is(await patiently(work), 'there');
  t.is(calls, 3);
});

test('what goes on failing fails in the end, the same as it did', async (t) => {
  const away = storeUnavailable(new Error('away'));
  let calls = 0;
  const work = () => {
    calls += 1;
    return Promise.reject(away);
  };
  t.is(await t.throwsAsync(createPatience({ patienceMs: 100, signal: never })(work)), away);
  t.is(calls, 2);
});

test('a fault of ours is not repeated, and after an abort nothing is begun', async (t) => {
  const fault = new TypeError('a fault');
  let calls = 0;
  const work = () => {
    calls += 1;
    return Promise.reject(fault);
  };
  t.is(await t.throwsAsync(createPatience({ patienceMs: 60_000, signal: never })(work)), fault);
  await t.throwsAsync(createPatience({ patienceMs: 60_000, signal: AbortSignal.abort() })(work), {
    name: 'AbortError',
  });
  t.is(calls, 1);
});

test('an abort ends the pause between two calls', async (t) => {
  const stop = new AbortController();
  const patiently = createPatience({ patienceMs: 60_000, signal: stop.signal });
  const work = () => {
    setImmediate(() => stop.abort());
    return Promise.reject(storeUnavailable(new Error('away')));
  };
  await t.throwsAsync(patiently(work), { name: 'AbortError' });
});
