import test from 'ava';
import { createCallHistory } from '../../../workers/backends/call-history.ts';

const called = { backend: 'onprem-a', model: 'small-chat' };
const refused = { outcome: 'failed', cause: 'connection refused', address: '10.0.0.1:8000', rule: 'no-connection' };

test('the latest failure of a backend for a model is shown for an hour, and other ends of calls are none', (t) => {
  let now = 1_000;
  const history = createCallHistory({ now: () => now });
  t.deepEqual(history.failuresOf(called), {});
  history.noteEnd({ ...called, requestId: 'req_1', end: { outcome: 'failed', cause: 'HTTP 500', status: 500 } });
  now += 1;
  history.noteEnd({ ...called, requestId: 'req_2', end: refused });
  for (const outcome of ['answered', 'busy', 'loading', 'stopped', 'fault'])
    history.noteEnd({ ...called, requestId: 'req_3', end: { outcome } });
  t.like(history.failuresOf(called), { lastFailure: { ...refused, requestId: 'req_2', at: 1_001 } });
  t.deepEqual(history.failuresOf({ ...called, model: 'large-chat' }), {});
  now += 3_600_000;
  t.deepEqual(history.failuresOf(called), {});
});

test('a backend fails from the first change of its breaker until it is closed', (t) => {
  let now = 5;
  const history = createCallHistory({ now: () => now });
  history.noteBreaker({ ...called, breaker: 'open' });
  now += 10;
  history.noteBreaker({ ...called, breaker: 'half-open' });
  history.noteBreaker({ ...called, breaker: 'open' });
  t.deepEqual(history.failuresOf(called), { failingSince: 5 });
  history.noteBreaker({ ...called, breaker: 'closed' });
  t.deepEqual(history.failuresOf(called), {});
});

test('what is no longer served is forgotten', (t) => {
  const history = createCallHistory();
  const other = { ...called, model: 'large-chat' };
  for (const each of [called, other]) {
    history.noteEnd({ ...each, requestId: 'req_1', end: refused });
    history.noteBreaker({ ...each, breaker: 'open' });
  }
  history.keepOnly([other]);
  t.deepEqual(history.failuresOf(called), {});
  t.is(Object.keys(history.failuresOf(other)).length, 2);
});
