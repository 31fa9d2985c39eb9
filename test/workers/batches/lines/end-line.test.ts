import test from 'ava';
import { Registry } from 'prom-client';
import type { BatchResult } from '../../../../shared/batches/batch.ts';
import { ApiError } from '../../../../shared/errors.ts';
import { createEndLine } from '../../../../workers/batches/lines/end-line.ts';
import { answeredLine, failedLine, unfinished } from '../../../../workers/batches/lines/line-results.ts';
import { createRunLedger } from '../../../../workers/failover/run.ts';
import { createWorkerMetrics } from '../../../../workers/metrics.ts';
import { recordedLog } from '../../../support/recorded-log.ts';
import { recordedSpan } from '../../../support/recorded-span.ts';
import { jobFor } from '../../../support/worker-side.ts';

const usage = { promptTokens: 10, completionTokens: 5, cachedTokens: 4, estimated: false };
const line = { batch: 'batch_1', line: 7, customId: 'mine', requestId: 'req_1' };

/** The span of a run whose line has this result. */
async function spanOf(stored: BatchResult) {
  const endLine = createEndLine({
    settle: async () => 'settled',
    sendLineEvent() {},
    metrics: createWorkerMetrics(new Registry()),
    log: recordedLog().log,
  });
  const { span, ended } = recordedSpan();
  const { replyTo: _, ...call } = jobFor('svc:replies:x', {});
  const job = { ...call, ...line, number: 1, failures: 0, losses: 0, reservedTokens: 10, tellTo: 'svc:control:x' };
  const ledger = createRunLedger({ run: 1, queueWaitMs: 0 });
  await endLine({ job, run: 1, taken: 1, ledger, span, admission: job } as Parameters<typeof endLine>[0], stored);
  span.end();
  return ended.at(-1);
}

test('the span of a run has the outcome of its line, and the code of its error', async (t) => {
  const outcomeOf = async (stored: BatchResult) => {
    const span = await spanOf(stored);
    return [span?.attributes['svc.outcome'], span?.error];
  };
  t.deepEqual(await outcomeOf(answeredLine(line, '{}', usage)), ['completed', undefined]);
  t.deepEqual(await outcomeOf(failedLine(line, new ApiError('UPSTREAM_INTERRUPTED', 'Broke off.'))), [
    ...['failed', 'UPSTREAM_INTERRUPTED'],
  ]);
  t.deepEqual(await outcomeOf(failedLine(line, unfinished.expired)), ['cancelled', 'batch_expired']);
  const ofAnother = failedLine({ ...line, requestId: 'req_2' }, new ApiError('UPSTREAM_INTERRUPTED', 'Broke off.'));
  t.deepEqual(await outcomeOf(ofAnother), ['cancelled', undefined]);
});
