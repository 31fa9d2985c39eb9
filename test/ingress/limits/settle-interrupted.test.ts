import test from 'ava';
import { Registry } from 'prom-client';
import { createSettleInterrupted } from '../../../ingress/limits/settle-interrupted.ts';
import { createIngressMetrics } from '../../../ingress/metrics.ts';
import type { Settle, Settlement } from '../../../shared/limits/settle.ts';
import { lostReport } from '../../support/limits-side.ts';
import { recordedLog } from '../../support/recorded-log.ts';

const metrics = () => createIngressMetrics(new Registry());

const lease = {
  account: 'user:alice',
  requestId: 'req_1',
  report: lostReport,
  promptTokens: 12,
  admission: { admittedAt: 1, deadline: 2, overage: false },
};

function recording(settled: Settlement[]): Settle {
  return async (settlement) => {
    settled.push(settlement);
    return 'settled';
  };
}

test('a stream that lost its worker is charged its prompt and what was delivered, as the run that told so', async (t) => {
  const settled: Settlement[] = [];
  const settle = recording(settled);
  const settleInterrupted = createSettleInterrupted({ settle, metrics: metrics(), log: recordedLog().log });
  await settleInterrupted(lease, { run: 2, tokens: 30, promptTokens: 8 });
  t.is(settled.length, 1);
  t.like(settled[0], { account: 'user:alice', requestId: 'req_1', run: 2, tokens: 38, admission: lease.admission });
  t.like(settled[0]?.report, { outcome: 'failed', counted: 'estimated', promptTokens: 8, completionTokens: 30 });
  t.deepEqual(settled[0]?.report.endedRuns, [2], 'the run before it stands in the record as lost');
});

test('a run that has begun meanwhile is lost, too, and where nobody got anything nothing is charged', async (t) => {
  const settled: Settlement[] = [];
  const settle = recording(settled);
  const settleInterrupted = createSettleInterrupted({ settle, metrics: metrics(), log: recordedLog().log });
  await settleInterrupted(lease, { run: 2, tokens: 0, promptTokens: undefined });
  t.like(settled[0], { tokens: 0, report: { promptTokens: 0, completionTokens: 0 } });
  t.deepEqual(settled[0]?.report.endedRuns, []);
});

test('a run that began meanwhile has not counted the prompt, so that it is the estimate of the admission', async (t) => {
  const settled: Settlement[] = [];
  const settle = recording(settled);
  const settleInterrupted = createSettleInterrupted({ settle, metrics: metrics(), log: recordedLog().log });
  await settleInterrupted(lease, { run: 2, tokens: 30, promptTokens: undefined });
  t.is(settled[0]?.tokens, 42);
});

test('what could not be settled is counted, and said where it is an error', async (t) => {
  for (const [answer, reason] of [
    [async () => 'refused' as const, 'refused'],
    [async () => 'lost' as const, 'lost'],
    [() => Promise.reject(new Error('READONLY')), 'error'],
  ] as const) {
    const { log, lines } = recordedLog();
    const counted = metrics();
    await createSettleInterrupted({ settle: answer, metrics: counted, log })(lease, {
      run: 2,
      tokens: 1,
      promptTokens: 1,
    });
    t.deepEqual((await counted.settleFailures.get()).values, [{ value: 1, labels: { reason } }]);
    t.is(lines.length, reason === 'error' ? 1 : 0);
  }
});
