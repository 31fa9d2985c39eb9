import test from 'ava';
import { outboxLengthFor } from '../../../shared/redis/outbox-bound.ts';

const gibibyte = 1_073_741_824;

test('waiting usage events take at most a quarter of the memory of Redis', (t) => {
  for (const memory of [gibibyte / 4, gibibyte, 8 * gibibyte]) {
    t.true(outboxLengthFor(undefined, memory) * 64 * 1_024 <= memory / 4);
  }
  t.is(outboxLengthFor(undefined, gibibyte), 4_096);
  t.is(outboxLengthFor(undefined, 1_000), 1);
});

test('a partition has at most 100,000 of them, also if the memory of Redis is unknown', (t) => {
  t.is(outboxLengthFor(undefined, 1_000 * gibibyte), 100_000);
  t.is(outboxLengthFor(undefined, 0), 100_000);
});

test("an operator's own bound is used unchanged", (t) => {
  t.is(outboxLengthFor(7, gibibyte), 7);
  t.is(outboxLengthFor(1_000_000, 1), 1_000_000);
});
