import test from 'ava';
import { exceededLimits, exitCodeOf, type Observations, waitsOf } from './judge.ts';

const waits = (before: number, during: number) => ({
  before: { p50: before, p99: 20, answers: 100 },
  during: { p50: during, p99: 900, answers: 100 },
  after: { p50: before, p99: 20, answers: 100 },
});

function observed(given: Partial<Observations> = {}): Observations {
  return {
    waits: { callers: waits(5, 15) },
    peakMiB: { 'ingress 1': { before: 150, during: 512, after: 200 }, redis: { before: 8, during: 9, after: 9 } },
    ...{ refused: [], lost: [], gains: [], ended: [] },
    ...given,
  };
}

const exceededBy = (given: Partial<Observations>) => exceededLimits(observed(given));

test('an attack within every limit exceeds none, and the report exits with 0', (t) => {
  t.deepEqual(exceededLimits(observed()), []);
  t.is(exitCodeOf([{ exceeded: [] }, { exceeded: [] }]), 0);
});

test('a median more than three times as long is reported, and so is a missing one', (t) => {
  const slow = { callers: waits(5, 15.1), newClients: waits(5, 9) };
  t.deepEqual(exceededBy({ waits: slow }), ['p50 of callers is 15.1 ms, more than 3 times 5 ms']);
  const none = { ...waits(5, 5), during: waitsOf([]) };
  t.deepEqual(exceededBy({ waits: { newClients: none } }), ['p50 of newClients is NaN ms, more than 3 times 5 ms']);
});

test('a process above 512 MiB at any time is reported', (t) => {
  const after = { 'worker 1': { before: 100, during: 100, after: 513 } };
  t.deepEqual(exceededBy({ peakMiB: after }), ['worker 1 had 513 MiB, more than 512']);
  const unknown = { 'worker 1': { before: 100, during: Number.NaN, after: 100 } };
  t.deepEqual(exceededBy({ peakMiB: unknown }), ['worker 1 had NaN MiB, more than 512']);
});

test('refused callers, lost answers, gains of the attacker and ended processes are reported', (t) => {
  t.deepEqual(exceededBy({ refused: ['503 SERVICE_UNAVAILABLE'] }), ['1 refused: 503 SERVICE_UNAVAILABLE']);
  t.deepEqual(exceededBy({ lost: ['a', 'b', 'c', 'd'] }), ['4 lost: a, b, c, …']);
  t.deepEqual(exceededBy({ gains: ['321 keys'], ended: ['ingress 1'] }), [
    'the attacker got 321 keys',
    'ingress 1 ended',
  ]);
});

test('the report exits with 1 if one attack of many exceeded a limit', (t) => {
  t.is(exitCodeOf([{ exceeded: [] }, { exceeded: ['worker 1 ended'] }, { exceeded: [] }]), 1);
});

test('the median and the 99th percentile are those of all answers', (t) => {
  t.deepEqual(waitsOf(Array.from({ length: 200 }, (_, index) => 200 - index)), { p50: 101, p99: 199, answers: 200 });
});
