import type { BatchResult } from '../../../shared/batches/batch.ts';
import type { UsageReport } from '../../../shared/jobs/usage-outbox.ts';
import type { Settle, Settlement } from '../../../shared/limits/settle.ts';
import type { Log } from '../../../shared/process/log.ts';
import { countSettled, type LimitMetrics } from '../../../shared/process/metrics.ts';
import { type Span, traceSettlement } from '../../../shared/tracing/span.ts';
import { noTokens, type ReportedEnd, usageReport } from '../../failover/answer-usage.ts';
import type { RunLedger } from '../../failover/run.ts';
import type { LineRequest } from './batch-job.ts';
import type { SendLineEvent } from './line-events.ts';
import { unfinished, usageOf } from './line-results.ts';

/** One run of a line, with all that settling it takes. */
export type LineRun = {
  job: LineRequest;
  run: number;
  taken: number;
  ledger: RunLedger;
  span?: Span | undefined;
  admission: Settlement['admission'];
};

/**
 * Settles a run by the stored result of its line, and sends the event to the worker that queued it. The run is charged what the result
 * says if the result is of its request, no matter which worker wrote it.
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
  metrics: Pick<LimitMetrics, 'settled' | 'tokens' | 'settleFailures'>;
  log: Log;
}): EndLine {
  return async function endLine(lineRun, stored) {
    const { job, run, taken, admission } = lineRun;
    const isOwn = stored.requestId === job.requestId;
    const usage = isOwn ? usageOf(stored) : noTokens;
    const outcome = outcomeOf(stored, isOwn);
    const report = usageReport({ ...lineRun, batch: job.batch }, { outcome, ...errorOf(stored, outcome) }, usage);
    const settled = await traceSettlement(lineRun.span, outcome, () =>
      settle({
        account: job.account,
        requestId: job.requestId,
        run,
        settler: `taking ${taken}`,
        lane: 'batch',
        chargedTokens: usage.promptTokens + usage.completionTokens,
        report,
        admission,
      }),
    );
    lineRun.span?.set({ 'svc.outcome': outcome });
    if (isOwn && stored.error !== null) lineRun.span?.end(stored.error.code);
    if (settled === 'settled') countSettled(metrics, report);
    else {
      metrics.settleFailures.inc({ endpoint: job.endpoint, reason: settled });
      log.debug({ requestId: job.requestId, run }, 'a line was already settled');
    }
    sendLineEvent(job, { type: 'ended', answered: stored.status !== null });
  };
}

/** That of the line in the error file. A line that was not answered has no status. */
function errorOf({ error, status }: BatchResult, outcome: UsageReport['outcome']): Omit<ReportedEnd, 'outcome'> {
  if (error === null || outcome !== 'failed') return {};
  return { code: error.code, ...(status !== null && { status }) };
}

function outcomeOf({ failed, error }: BatchResult, isOwn: boolean): UsageReport['outcome'] {
  if (!isOwn) return 'cancelled';
  if (!failed) return 'completed';
  const isUnfinished = Object.values(unfinished).some(({ code }) => code === error?.code);
  return isUnfinished ? 'cancelled' : 'failed';
}
