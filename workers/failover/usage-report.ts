import type { QueuedCall } from '../../shared/jobs/inference-job.ts';
import type { TokenUsage } from '../../shared/jobs/replies.ts';
import type { UsageReport } from '../../shared/jobs/usage-outbox.ts';
import type { RunLedger } from './run-ledger.ts';

type EndedRun = {
  job: Pick<QueuedCall, 'keyId' | 'model' | 'requestedModel' | 'tier' | 'endpoint' | 'earlierRuns'> & { plan: string };
  /** The batch that the request is a line of. */
  batch: string | null;
  run: number;
  ledger: RunLedger;
};

export const noTokens: TokenUsage = { promptTokens: 0, completionTokens: 0, cachedTokens: 0, estimated: true };

/** The content of a request's usage record, by the run that ends it (contract.md#n13-failed-answers). */
export function usageReport(
  { job, batch, run, ledger }: EndedRun,
  outcome: UsageReport['outcome'],
  usage: TokenUsage,
): UsageReport {
  const { keyId, plan, model, requestedModel, tier, endpoint, earlierRuns } = job;
  const { promptTokens, completionTokens, cachedTokens, estimated } = usage;
  const answerId = ledger.answerId();
  return {
    keyId,
    plan,
    model,
    ...(requestedModel !== undefined && { requestedModel }),
    tier,
    endpoint,
    batch,
    promptTokens,
    completionTokens,
    cachedTokens,
    counted: estimated ? 'estimated' : 'reported',
    outcome,
    ...ledger.timing(),
    ...(answerId !== undefined && { answerId }),
    attempts: [...earlierRuns.flatMap(({ attempts }) => attempts), ...ledger.attempts()],
    endedRuns: [...earlierRuns.map((earlier) => earlier.run), run],
  };
}
