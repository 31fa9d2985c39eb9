import test from 'ava';
import { lostReport } from '../../../shared/jobs/usage-outbox.ts';

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
