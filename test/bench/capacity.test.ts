import test from 'ava';
import { type Need, planFor, plannedUse } from './capacity.ts';

const need = (change: Partial<Need>): Need => ({
  ...{ requestMicros: 300, tokenMicros: 50, streamKib: 100, baseMib: 200 },
  ...change,
});
const needs = { ingress: need({}), worker: need({ tokenMicros: 100 }), redis: need({ tokenMicros: 25, baseMib: 10 }) };

test('each process has at least two, and no processor is used more than planned', (t) => {
  const few = planFor(1, needs);
  t.deepEqual([few.ingresses.count, few.workers.count, few.redis.masters], [2, 2, 1]);
  for (const streams of [100, 999, 1_000, 1_001, 10_000]) {
    const { ingresses, workers, redis } = planFor(streams, needs);
    t.true((streams * 20 * 50) / 1e6 <= ingresses.count * plannedUse + 1e-9);
    t.true((streams * 20 * 100) / 1e6 <= workers.count * plannedUse + 1e-9);
    t.is(redis.processors, (streams * 20 * 25) / 1e6);
    t.true(redis.processors <= redis.masters * plannedUse + 1e-9);
    t.true((streams * 20 * 50) / 1e6 > (ingresses.count - 1) * plannedUse || ingresses.count === 2, 'and none is idle');
  }
});

test('the memory of a process is its own and that of its streams', (t) => {
  const { ingresses, redis } = planFor(6_000, needs);
  t.is(ingresses.count, 10);
  t.is(ingresses.mib, 200 + (600 * 100) / 1_024);
  t.is(redis.mib, 10 + (6_000 * 100) / 1_024);
});
