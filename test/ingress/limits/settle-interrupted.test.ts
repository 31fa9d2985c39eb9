import test from 'ava';
import { Registry } from 'prom-client';
import { createSettleInterrupted } from '../../../ingress/limits/settle-interrupted.ts';
import { createIngressMetrics } from '../../../ingress/metrics.ts';
import type { HeldClaim } from '../../../shared/jobs/idempotency.ts';
import type { Settle, Settlement } from '../../../shared/limits/settle.ts';
import { lostReport } from '../../support/limits-side.ts';
import { recordedLog } from '../../support/recorded-log.ts';
import { recordedSpan } from '../../support/recorded-span.ts';

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

test('a stream that lost its worker is charged for its prompt and the delivered part, as the run that reported them', async (t) => {
  const settled: Settlement[] = [];
  const settle = recording(settled);
  const settleInterrupted = createSettleInterrupted({ settle, metrics: metrics(), log: recordedLog().log });
  await settleInterrupted(lease, { run: 2, completionTokens: 30, promptTokens: 8 });
  t.is(settled.length, 1);
  t.like(settled[0], {
    account: 'user:alice',
    requestId: 'req_1',
    run: 2,
    chargedTokens: 38,
    admission: lease.admission,
  });
  t.like(settled[0]?.report, { outcome: 'failed', counted: 'estimated', promptTokens: 8, completionTokens: 30 });
  t.deepEqual(settled[0]?.report.endedRuns, [2], 'the run before it is recorded as lost');
});

test('a run that has started meanwhile is lost, too, and nothing is charged if nothing was delivered', async (t) => {
  const settled: Settlement[] = [];
  const settle = recording(settled);
  const settleInterrupted = createSettleInterrupted({ settle, metrics: metrics(), log: recordedLog().log });
  await settleInterrupted(lease, { run: 2, completionTokens: 0, promptTokens: undefined });
  t.like(settled[0], { chargedTokens: 0, report: { promptTokens: 0, completionTokens: 0 } });
  t.deepEqual(settled[0]?.report.endedRuns, []);
});

test('a run that started meanwhile has not counted the prompt, so the estimate of the admission is used', async (t) => {
  const settled: Settlement[] = [];
  const settle = recording(settled);
  const settleInterrupted = createSettleInterrupted({ settle, metrics: metrics(), log: recordedLog().log });
  await settleInterrupted(lease, { run: 2, completionTokens: 30, promptTokens: undefined });
  t.is(settled[0]?.chargedTokens, 42);
});

test('its idempotency key ends with it: it is free if nothing is charged, and its answer is lost otherwise', async (t) => {
  const settled: Settlement[] = [];
  const settle = recording(settled);
  const settleInterrupted = createSettleInterrupted({ settle, metrics: metrics(), log: recordedLog().log });
  const claim: HeldClaim = { idempotencyKey: 'order-17', bodyMarks: ['new', 'old'], isStream: true, answerBytesMax: 0 };
  await settleInterrupted({ ...lease, claim }, { run: 2, completionTokens: 0, promptTokens: undefined });
  await settleInterrupted({ ...lease, claim }, { run: 2, completionTokens: 30, promptTokens: undefined });
  await settleInterrupted(lease, { run: 2, completionTokens: 30, promptTokens: undefined });
  const ended = { idempotencyKey: 'order-17', bodyMark: 'new' };
  t.deepEqual(
    settled.map((settlement) => settlement.claim),
    [{ ...ended, end: 'free' }, { ...ended, end: 'lost' }, undefined],
  );
});

test('a request that could not be settled is counted, and logged if it is an error', async (t) => {
  for (const [answer, reason] of [
    [async () => 'refused' as const, 'refused'],
    [async () => 'lost' as const, 'lost'],
    [() => Promise.reject(new Error('READONLY')), 'error'],
  ] as const) {
    const { log, lines } = recordedLog();
    const counted = metrics();
    await createSettleInterrupted({ settle: answer, metrics: counted, log })(lease, {
      run: 2,
      completionTokens: 1,
      promptTokens: 1,
    });
    const failures = (await counted.settleFailures.get()).values.filter(({ value }) => value > 0);
    t.deepEqual(failures, [{ value: 1, labels: { endpoint: lease.report.endpoint, reason } }]);
    t.is(lines.length, reason === 'error' ? 1 : 0);
  }
});

test('the tokens of a settled request are counted by model and endpoint, and its settlement is a part of its trace', async (t) => {
  const counted = metrics();
  const { span, ended } = recordedSpan();
  const settleInterrupted = createSettleInterrupted({
    settle: recording([]),
    metrics: counted,
    log: recordedLog().log,
  });
  await settleInterrupted({ ...lease, span }, { run: 2, completionTokens: 30, promptTokens: 8 });
  t.deepEqual(ended, [{ name: 'settle', attributes: { 'svc.outcome': 'failed', 'svc.settled': 'settled' } }]);
  const { endpoint, model } = lease.report;
  const values = (await counted.tokens.get()).values.map(({ labels, value }) => [labels, value]);
  t.deepEqual(values, [
    [{ model, endpoint, kind: 'prompt' }, 8],
    [{ model, endpoint, kind: 'cached' }, 0],
    [{ model, endpoint, kind: 'completion' }, 30],
  ]);
  const failing = createSettleInterrupted({
    ...{ settle: () => Promise.reject(new Error('READONLY')), metrics: counted, log: recordedLog().log },
  });
  await failing({ ...lease, span }, { run: 2, completionTokens: 30, promptTokens: 8 });
  t.like(ended[1], { name: 'settle', error: 'INTERNAL_ERROR' });
});
