import test from 'ava';
import fc from 'fast-check';
import { phasesOf, requestState } from '../../../ingress/console/requests/request-words.ts';

const attempt = (outcome: string, ms: number | null, backend?: string) => ({
  ...{ location: 'on-prem' as const, outcome, cause: null, ms },
  ...(backend && { backend }),
});
const noError = { status: null, code: null };

test('the timeline has the queue, each call, the first token and the answer', (t) => {
  const request = {
    ...{ ...noError, queue_ms: 100, first_token_ms: 400, duration_ms: 1_000 },
    attempts: [attempt('refused', 200), attempt('answered', 700, 'onprem-b')],
  };
  t.deepEqual(
    phasesOf(request).map(({ name, kind, fromMs, toMs }) => [name, kind, fromMs, toMs]),
    [
      ['Queue', 'queue', 0, 100],
      ['1 on-prem', 'failed', 100, 300],
      ['2 onprem-b', 'attempt', 300, 1_000],
      ['First token', 'wait', 100, 400],
      ['Answer', 'answer', 400, 1_000],
    ],
  );
});

test('the timeline of an error ends with its status; a request that no worker took was in the queue', (t) => {
  const failed = { status: 503, code: 'UPSTREAMS_EXHAUSTED', queue_ms: 5, first_token_ms: null, duration_ms: 50 };
  const names = (request: Parameters<typeof phasesOf>[0]) => phasesOf(request).map(({ name }) => name);
  t.deepEqual(names({ ...failed, attempts: [attempt('timeout', null)] }), ['Queue', '1 on-prem', '503 sent']);
  t.deepEqual(names({ ...failed, status: 200, attempts: [] }).at(-1), 'Error sent');
  const [queue] = phasesOf({ ...failed, queue_ms: null, attempts: [] });
  t.deepEqual([queue?.fromMs, queue?.toMs], [0, 50]);
  t.deepEqual(names({ ...noError, queue_ms: null, first_token_ms: null, duration_ms: null, attempts: [] }), []);
});

test('no part begins before the request or ends after it, whatever was measured', (t) => {
  const ms = fc.option(fc.nat(10_000), { nil: null });
  const request = fc.record({
    status: fc.constantFrom(null, 200, 503),
    code: fc.constantFrom(null, 'UPSTREAMS_EXHAUSTED'),
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

test('a request is shown by the status and code of its error, else by its outcome', (t) => {
  const state = (fields: Partial<Parameters<typeof requestState>[0]>) =>
    requestState({ state: 'ended', outcome: 'failed', ...noError, ...fields });
  t.deepEqual(state({ state: 'streaming', outcome: null }), { state: 'streaming', tone: 'moving' });
  t.deepEqual(state({ outcome: 'lost' }), { state: 'lost', tone: 'bad' });
  t.deepEqual(state({ status: 503, code: 'UPSTREAMS_EXHAUSTED' }), { state: '503 UPSTREAMS_EXHAUSTED', tone: 'bad' });
  t.is(state({ status: 200, code: 'UPSTREAM_INTERRUPTED' }).state, 'UPSTREAM_INTERRUPTED');
});
