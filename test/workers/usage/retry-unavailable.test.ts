import test from 'ava';
import { storeUnavailable } from '../../../shared/store/documents/store-errors.ts';
import { createRetryUnavailable } from '../../../workers/usage/reconcile-month.ts';

const never = new AbortController().signal;

test('repeats a call that fails until it works', async (t) => {
  const retryUnavailable = createRetryUnavailable({ unavailableMsMax: 60_000, signal: never });
  let calls = 0;
  const work = async () => {
    calls += 1;
    if (calls < 3) throw storeUnavailable(new Error('away'));
    return 'there';
  };
  t.is(await retryUnavailable(work), 'there');
  t.is(calls, 3);
});

test('a call that keeps failing fails in the end with the same error', async (t) => {
  const away = storeUnavailable(new Error('away'));
  let calls = 0;
  const work = () => {
    calls += 1;
    return Promise.reject(away);
  };
  t.is(await t.throwsAsync(createRetryUnavailable({ unavailableMsMax: 100, signal: never })(work)), away);
  t.is(calls, 2);
});

test('an internal error is not retried, and no attempt begins after an abort', async (t) => {
  const fault = new TypeError('a fault');
  let calls = 0;
  const work = () => {
    calls += 1;
    return Promise.reject(fault);
  };
  t.is(await t.throwsAsync(createRetryUnavailable({ unavailableMsMax: 60_000, signal: never })(work)), fault);
  await t.throwsAsync(createRetryUnavailable({ unavailableMsMax: 60_000, signal: AbortSignal.abort() })(work), {
    name: 'AbortError',
  });
  t.is(calls, 1);
});

test('an abort ends the pause between two attempts', async (t) => {
  const stop = new AbortController();
  const retryUnavailable = createRetryUnavailable({ unavailableMsMax: 60_000, signal: stop.signal });
  const work = () => {
    setImmediate(() => stop.abort());
    return Promise.reject(storeUnavailable(new Error('away')));
  };
  await t.throwsAsync(retryUnavailable(work), { name: 'AbortError' });
});
