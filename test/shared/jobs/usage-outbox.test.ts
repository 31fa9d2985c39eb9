import test from 'ava';
import { lostReport, outboxLengthFor } from '../../../shared/jobs/usage-outbox.ts';

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

test('a request that no process is left to end is recorded as lost: with its own names, no tokens, no times, no run', (t) => {
  const asked = {
    keyId: 'key_1',
    plan: 'free',
    model: 'small-chat',
    tier: 'guest',
    endpoint: '/v1/chat/completions',
    batch: 'batch_1',
  };
  t.deepEqual(lostReport(asked), {
    ...asked,
    promptTokens: 0,
    completionTokens: 0,
    cachedTokens: 0,
    counted: 'estimated',
    outcome: 'lost',
    queueWaitMs: null,
    firstTokenMs: null,
    durationMs: null,
    attempts: [],
    endedRuns: [],
  });
});
