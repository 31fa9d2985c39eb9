import { ApiError, errorStatus, replyLost } from '../../shared/errors.ts';
import {
  type ClaimEnd,
  type KeptAnswers,
  keepsAnswer,
  mayKeepAnswer,
  notKeptHeader,
} from '../../shared/jobs/idempotency.ts';
import type { InferenceJob } from '../../shared/jobs/inference-job.ts';
import { unchallengedMs } from '../../shared/jobs/queues.ts';
import { streamStatusHeldMs, type TokenUsage } from '../../shared/jobs/replies.ts';
import type { UsageReport } from '../../shared/jobs/usage-outbox.ts';
import type { Settle, SettleAnswer, Settlement } from '../../shared/limits/settle.ts';
import type { Log } from '../../shared/process/log.ts';
import { countSettled, type LimitMetrics } from '../../shared/process/metrics.ts';
import { traceSettlement } from '../../shared/tracing/span.ts';
import type { Answer } from '../failover/answer-request.ts';
import { noTokens, type ReportedEnd, usageReport } from '../failover/answer-usage.ts';
import type { Run } from '../failover/run.ts';
import { bytesOfBody } from '../replies/send-pieces.ts';
import type { ReplySender } from '../replies/send-reply.ts';

/** The usage to charge (none if it is left out), and the last reply to the client. */
export type RequestEnd = { outcome: UsageReport['outcome']; usage?: TokenUsage | undefined } & (
  | { answer: Answer }
  | { error: ApiError }
);

/** Settles a request and sends its last reply. Sends nothing if another run ends the request (contract.md#n7-who-settles). */
export type EndRequest = (run: Run, ending: RequestEnd) => Promise<void>;

export function createEndRequest(deps: {
  settle: Settle;
  /** Replies use the same connection as settling, so they arrive in the order in which they were sent. */
  oneConnection: boolean;
  keptAnswers: Pick<KeptAnswers, 'seal'>;
  metrics: Pick<LimitMetrics, 'settled' | 'tokens' | 'settleFailures' | 'answersNotKept'>;
  log: Log;
  now?: () => number;
}): EndRequest {
  const { settle, oneConnection, keptAnswers, metrics, log, now = () => performance.now() } = deps;

  return async function endRequest(run, ending) {
    const { job, reply, takenAt } = run;
    const usage = ending.usage ?? noTokens;
    const report = usageReport({ ...run, batch: null }, endReported(run, ending), usage);
    const chargedTokens = usage.promptTokens + usage.completionTokens;
    const claim = claimOf(run, ending, chargedTokens);
    const last = claim?.end === 'lost' ? withoutRepeat(ending) : ending;
    const settling = traceSettlement(run.span, ending.outcome, () =>
      settle({
        ...job,
        run: run.run,
        settler: `taking ${run.taken}`,
        chargedTokens,
        report,
        admission: job,
        claim,
      }),
    ).catch((error: unknown) => {
      log.error({ err: error, requestId: job.requestId }, 'a request could not be settled; its lease will expire');
      return 'error' as const;
    });
    // One flush for both, unless another worker may have begun meanwhile: then its run ends the request.
    const isUnchallenged = oneConnection && now() - takenAt < unchallengedMs;
    if (isUnchallenged) {
      const sent = sendEnding(reply, last);
      sent.catch(() => {}); // its failure is awaited below, and must not end the process before that
      await settling;
      await sent;
    } else {
      const settled = await settling;
      if (settled === 'lost') await reply.error(replyLost(false));
      else if (settled !== 'refused') await sendEnding(reply, last);
    }
    count(run, await settling, report);
    run.span?.set({ 'svc.outcome': ending.outcome });
    if ('error' in ending) run.span?.end(ending.error.code);
  };

  /** A failure that charged nothing leaves the key free, so that the next attempt runs (contract.md#h1-idempotency-keys). */
  function claimOf({ job }: Run, ending: RequestEnd, chargedTokens: number): Settlement['claim'] {
    return job.claim && { ...job.claim, ...endOf({ ...job, claim: job.claim }, ending, chargedTokens) };
  }

  function endOf({ account, endpoint, claim }: ClaimedJob, ending: RequestEnd, chargedTokens: number): ClaimEnd {
    if (!('answer' in ending)) return { end: chargedTokens === 0 ? 'free' : 'lost' };
    const { body = '', usage } = ending.answer;
    if (keepsAnswer(bytesOfBody(body), claim)) {
      const sealed = keptAnswers.seal({ account, ...claim }, { body, estimated: usage.estimated });
      return { end: 'kept', answer: sealed };
    }
    if (mayKeepAnswer(claim)) metrics.answersNotKept.inc({ endpoint, reason: 'size' });
    return { end: 'lost' };
  }

  function count({ job, run }: Run, settled: SettleAnswer | 'error', report: UsageReport): void {
    if (settled === 'settled') countSettled(metrics, report);
    else metrics.settleFailures.inc({ endpoint: job.endpoint, reason: settled });
    if (settled === 'refused')
      log.warn(
        { requestId: job.requestId, run },
        'a run was not settled: another run had begun, or the request had ended',
      );
  }
}

/**
 * An error at the end of a stream comes after a status of 200, which the ingress sends with the first text, or after 10 s without one. A
 * client that has left gets none.
 */
function endReported({ job, ledger }: Run, ending: RequestEnd): ReportedEnd {
  const { outcome } = ending;
  if (!('error' in ending) || outcome === 'cancelled') return { outcome };
  const { code } = ending.error;
  const hasBegun = job.stream && (ledger.hasSentText() || ledger.timing().durationMs > streamStatusHeldMs);
  return { outcome, code, status: hasBegun ? 200 : errorStatus(code) };
}

type ClaimedJob = Pick<InferenceJob, 'account' | 'endpoint'> & { claim: NonNullable<InferenceJob['claim']> };

/** A repeat of a request that failed and was charged gets no answer. */
function withoutRepeat(ending: RequestEnd): RequestEnd {
  if (!('error' in ending)) return ending;
  const { code, message, cause, fields, headers, openAi, retryAfterMs } = ending.error;
  const options = {
    cause,
    fields,
    openAi,
    headers: { ...headers, ...notKeptHeader },
    ...(retryAfterMs !== undefined && { retryAfterMs }),
  };
  return { ...ending, error: new ApiError(code, message, options) };
}

function sendEnding(reply: ReplySender, ending: RequestEnd): Promise<void> {
  return 'answer' in ending ? reply.end(ending.answer) : reply.error(ending.error);
}
