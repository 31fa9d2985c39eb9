import test from 'ava';
import fc from 'fast-check';
import { phasesOf, requestState } from '../../../ingress/console/requests/request-words.ts';

const attempt = (outcome: string, ms: number | null) => ({ location: 'on-prem' as const, outcome, cause: null, ms });

test('the timeline has the queue, the first token and the answer, then each call', (t) => {
  const request = {
    ...{ queue_ms: 100, first_token_ms: 400, duration_ms: 1_000 },
    attempts: [attempt('refused', 200), attempt('answered', 700)],
  };
  t.deepEqual(
    phasesOf(request).map(({ name, kind, fromMs, toMs }) => [name, kind, fromMs, toMs]),
    [
      ['Queue', 'queue', 0, 100],
      ['First token', 'wait', 100, 400],
      ['Answer', 'answer', 400, 1_000],
      ['Attempt 1, on-prem', 'failed', 100, 300],
      ['Attempt 2, on-prem', 'attempt', 300, 1_000],
    ],
  );
});

test('a request without a first token, and one that has not ended, have fewer parts', (t) => {
  const failed = { queue_ms: 5, first_token_ms: null, duration_ms: 50, attempts: [attempt('timeout', null)] };
  t.deepEqual(
    phasesOf(failed).map(({ name }) => name),
    ['Queue', 'Answer', 'Attempt 1, on-prem'],
  );
  t.deepEqual(phasesOf({ queue_ms: null, first_token_ms: null, duration_ms: null, attempts: [] }), []);
});

test('no part begins before the request or ends after it, whatever was measured', (t) => {
  const ms = fc.option(fc.nat(10_000), { nil: null });
  const request = fc.record({
    queue_ms: ms,
    first_token_ms: ms,
    duration_ms: ms,
    attempts: fc.array(ms.map((took) => attempt('answered', took))),
  });
  const property = fc.property(request, (given) =>
    phasesOf(given).every(({ fromMs, toMs }) => 0 <= fromMs && fromMs <= toMs && toMs <= (given.duration_ms ?? 0)),
  );
  t.notThrows(() => fc.assert(property));
});

test('a request is shown by its outcome once it has ended', (t) => {
  t.deepEqual(requestState({ state: 'streaming', outcome: null }), { state: 'streaming', tone: 'moving' });
  t.deepEqual(requestState({ state: 'ended', outcome: 'lost' }), { state: 'lost', tone: 'bad' });
});
