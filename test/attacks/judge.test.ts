import test from 'ava';
import { exitCodeOf, missedBars, type Observed, waitsOf } from './judge.ts';

const waits = (before: number, during: number) => ({
  before: { p50: before, p99: 20, answers: 100 },
  during: { p50: during, p99: 900, answers: 100 },
  after: { p50: before, p99: 20, answers: 100 },
});

function observed(wishes: Partial<Observed> = {}): Observed {
  return {
    waits: { callers: waits(5, 15) },
    peakMiB: { 'ingress 1': { before: 150, during: 512, after: 200 }, redis: { before: 8, during: 9, after: 9 } },
    ...{ refused: [], lost: [], gains: [], ended: [] },
    ...wishes,
  };
}

const missedBy = (wishes: Partial<Observed>) => missedBars(observed(wishes));

test('an attack within every bar misses none, and the report ends with 0', (t) => {
  t.deepEqual(missedBars(observed()), []);
  t.is(exitCodeOf([{ missed: [] }, { missed: [] }]), 0);
});

test('a median more than three times as long is said, and so is one that was not measured', (t) => {
  const slow = { callers: waits(5, 15.1), newcomers: waits(5, 9) };
  t.deepEqual(missedBy({ waits: slow }), ['p50 of callers is 15.1 ms, more than 3 times 5 ms']);
  const none = { ...waits(5, 5), during: waitsOf([]) };
  t.deepEqual(missedBy({ waits: { newcomers: none } }), ['p50 of newcomers is NaN ms, more than 3 times 5 ms']);
});

test('a process above 512 MiB at any time is said', (t) => {
  const after = { 'worker 1': { before: 100, during: 100, after: 513 } };
  t.deepEqual(missedBy({ peakMiB: after }), ['worker 1 had 513 MiB, more than 512']);
  const unknown = { 'worker 1': { before: 100, during: Number.NaN, after: 100 } };
  t.deepEqual(missedBy({ peakMiB: unknown }), ['worker 1 had NaN MiB, more than 512']);
});

test('each caller that was refused, each answer that was lost, what the attacker gained and what ended is said', (t) => {
  t.deepEqual(missedBy({ refused: ['503 SERVICE_UNAVAILABLE'] }), ['1 refused: 503 SERVICE_UNAVAILABLE']);
  t.deepEqual(missedBy({ lost: ['a', 'b', 'c', 'd'] }), ['4 lost: a, b, c, …']);
  t.deepEqual(missedBy({ gains: ['321 keys'], ended: ['ingress 1'] }), [
    'the attacker got 321 keys',
    'ingress 1 ended',
  ]);
});

test('the report ends with 1 if one attack of many missed a bar', (t) => {
  t.is(exitCodeOf([{ missed: [] }, { missed: ['worker 1 ended'] }, { missed: [] }]), 1);
});

test('the median and the 99th percentile are of all answers', (t) => {
  t.deepEqual(waitsOf(Array.from({ length: 200 }, (_, index) => 200 - index)), { p50: 101, p99: 199, answers: 200 });
});
