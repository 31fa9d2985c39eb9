import test from 'ava';
import { outboxLengthFor } from '../../../shared/redis/outbox-bound.ts';

const gibibyte = 1_073_741_824;

test('the usage events that may wait take a quarter of what Redis may use, at most', (t) => {
  for (const memory of [gibibyte / 4, gibibyte, 8 * gibibyte]) {
    t.true(outboxLengthFor(undefined, memory) * 64 * 1_024 <= memory / 4);
  }
  t.is(outboxLengthFor(undefined, gibibyte), 4_096);
  t.is(outboxLengthFor(undefined, 1_000), 1);
});

test('there are no more of them than 100,000 in a partition, also if it is not known what Redis may use', (t) => {
  t.is(outboxLengthFor(undefined, 1_000 * gibibyte), 100_000);
  t.is(outboxLengthFor(undefined, 0), 100_000);
});

test("an operator's own bound holds as it is", (t) => {
  t.is(outboxLengthFor(7, gibibyte), 7);
  t.is(outboxLengthFor(1_000_000, 1), 1_000_000);
});
