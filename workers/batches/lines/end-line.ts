import type { BatchResult } from '../../../shared/batches/batch.ts';
import type { UsageReport } from '../../../shared/jobs/usage-outbox.ts';
import type { Settle, Settlement } from '../../../shared/limits/settle.ts';
import type { Log } from '../../../shared/process/log.ts';
import type { LimitMetrics } from '../../../shared/process/metrics.ts';
import type { RunLedger } from '../../answers/run-ledger.ts';
import { noTokens, usageReport } from '../../answers/usage-report.ts';
import type { LineRequest } from './batch-job.ts';
import type { SendLineEvent } from './line-events.ts';
import { unfinished, usageOf } from './line-results.ts';

/** One run of a line, as it is settled. */
export type LineRun = {
  job: LineRequest;
  run: number;
  taken: number;
  ledger: RunLedger;
  admission: Settlement['admission'];
};

/**
 * Settles a line by the result that stands for it, and tells who queued it: what is charged is what stands there, if it is this
 * request's, whoever has written it.
 */
export type EndLine = (run: LineRun, stored: BatchResult) => Promise<void>;

export function createEndLine({
  settle,
  sendLineEvent,
  metrics,
  log,
}: {
  settle: Settle;
  sendLineEvent: SendLineEvent;
  metrics: Pick<LimitMetrics, 'settled' | 'settleFailures'>;
  log: Log;
}): EndLine {
  return async function endLine(lineRun, stored) {
    const { job, run, taken, admission } = lineRun;
    const isOwn = stored.requestId === job.requestId;
    const usage = isOwn ? usageOf(stored) : noTokens;
    const outcome = outcomeOf(stored, isOwn);
    const report = usageReport({ ...lineRun, batch: job.batch }, outcome, usage);
    const settled = await settle({
      account: job.account,
      requestId: job.requestId,
      run,
      settler: `taking ${taken}`,
      lane: 'batch',
      tokens: usage.promptTokens + usage.completionTokens,
      report,
      admission,
    });
    if (settled === 'settled') {
      metrics.settled.inc({ outcome, counted: report.counted });
    } else {
      metrics.settleFailures.inc({ reason: settled });
      log.debug({ requestId: job.requestId, run }, 'a line was settled before');
    }
    sendLineEvent(job, { news: 'ended', answered: stored.status !== null });
  };
}

function outcomeOf({ failed, error }: BatchResult, isOwn: boolean): UsageReport['outcome'] {
  if (!isOwn) return 'cancelled';
  if (!failed) return 'completed';
  const isUnfinished = Object.values(unfinished).some(({ code }) => code === error?.code);
  return isUnfinished ? 'cancelled' : 'failed';
}
