import type { UsageReport } from '../../shared/jobs/usage-outbox.ts';
import type { Settle } from '../../shared/limits/settle.ts';
import type { Log } from '../../shared/process/log.ts';
import type { IngressMetrics } from '../metrics.ts';

/** The lease of a request in flight: by whom it is held, and what its record says should nobody end it. */
export type HeldLease = {
  account: string;
  requestId: string;
  report: UsageReport;
  promptTokens: number;
  admission: { admittedAt: number; deadline: number; overage: boolean };
};

/**
 * `run` says that an earlier one was interrupted, after so many tokens. `promptTokens` were counted by whoever says so,
 * undefined where it has begun to call backends itself.
 */
export type Delivered = { run: number; tokens: number; promptTokens: number | undefined };

/**
 * Charges a stream that broke off with its worker: the prompt and what was delivered, both estimated. Nothing waits for it;
 * where Redis stays away the lease ends by itself.
 */
export function createSettleInterrupted({
  settle,
  metrics,
  log,
}: {
  settle: Settle;
  metrics: Pick<IngressMetrics, 'settled' | 'settleFailures'>;
  log: Log;
}) {
  return async function settleInterrupted(lease: HeldLease, delivered: Delivered): Promise<void> {
    const { account, requestId, admission } = lease;
    const { run, tokens: completionTokens } = delivered;
    // Of an answer that nobody got any of, nothing is charged.
    const promptTokens = completionTokens === 0 ? 0 : (delivered.promptTokens ?? lease.promptTokens);
    const endedRuns = delivered.promptTokens === undefined ? [] : [run];
    const report: UsageReport = {
      ...lease.report,
      ...{ outcome: 'failed', counted: 'estimated', promptTokens, completionTokens, endedRuns },
    };
    const tokens = promptTokens + completionTokens;
    try {
      const settled = await settle({ account, requestId, run, settler: 'ingress', tokens, report, admission });
      if (settled === 'settled') metrics.settled.inc({ outcome: 'failed', counted: 'estimated' });
      else metrics.settleFailures.inc({ reason: settled });
    } catch (error) {
      metrics.settleFailures.inc({ reason: 'error' });
      log.error({ err: error, requestId }, 'an interrupted request could not be settled; its lease ends by itself');
    }
  };
}
