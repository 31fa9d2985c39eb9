import { answerTooLarge } from '../../shared/endpoints/answers/size-budget.ts';
import { type ApiError, clientGone, deadlineExceeded, upstreamsExhausted, waitedTooLong } from '../../shared/errors.ts';
import type { Log } from '../../shared/process/log.ts';
import type { AnswerOutcome, UsageCounters } from '../failover/answer-outcome.ts';
import { interrupted, type UsageCounter } from '../failover/answer-request.ts';
import { unknownUsage } from '../failover/answer-usage.ts';
import { refusedBy, tooLongFor } from '../failover/refusals.ts';
import type { Outcome, StartedRun, StopReason } from '../failover/run.ts';
import type { EndRequest, RequestEnd } from './end-request.ts';
import type { LeaseHeartbeat } from './start-lease-heartbeat.ts';

/** Ends a request by the result of its run, or puts it back into its queue. Fails with the error of a `fault`. */
export type ConcludeRequest = (run: StartedRun, found: AnswerOutcome) => Promise<Outcome>;

export function createConcludeRequest(deps: {
  endRequest: EndRequest;
  leases: Pick<LeaseHeartbeat, 'extendRequeued'>;
  log: Log;
}): ConcludeRequest {
  const { endRequest, leases, log } = deps;

  return async function concludeRequest(run, found) {
    const { received } = found;
    switch (found.outcome) {
      case 'answered':
        return end(run, { outcome: 'completed', usage: found.answer.usage, answer: found.answer });
      case 'refused':
        return fail(run, refusedBy(found.by, 'request'));
      case 'too_long':
        return fail(run, tooLongFor(run.job, found.numbers));
      case 'exhausted':
        return fail(run, upstreamsExhausted(run.job.tier, found.attempted, found.retryAfterMs));
      case 'interrupted':
        return fail(run, interrupted(), received);
      case 'too_large': {
        // It was produced, as for a client that leaves.
        const usage = await (found.produced?.() ?? unknownUsage(run.job));
        return end(run, { outcome: 'failed', error: answerTooLarge(), usage });
      }
      case 'late':
        return fail(run, waitedTooLong());
      case 'stopped':
        return stop(run, found);
      case 'fault':
        throw found.error;
    }
  };

  async function stop(run: StartedRun, { received, produced }: UsageCounters): Promise<Outcome> {
    const reason = run.signal.reason as StopReason; // nothing else aborts this signal
    const { job, ledger } = run;
    log.debug({ requestId: job.requestId, reason }, 'a run was stopped');
    switch (reason) {
      case 'lock lost':
        // Another worker has the job, and ends the request.
        run.span?.set({ 'svc.outcome': 'superseded' });
        return { outcome: 'done' };
      case 'deadline':
        return fail(run, deadlineExceeded(), received);
      case 'shutdown':
        return received === undefined ? requeue(run) : fail(run, interrupted(), received);
      default: {
        // The client is gone, but the answer was produced and is charged. A call that had failed before has produced nothing
        // (contract.md#d7-clients-that-leave).
        const wasCalling = ledger.attempts().at(-1)?.outcome === 'stopped';
        const usage = wasCalling ? (produced?.() ?? unknownUsage(job)) : received?.();
        return end(run, { outcome: 'cancelled', error: clientGone(), usage: await usage });
      }
    }
  }

  async function requeue({ job, run, ledger, span }: StartedRun): Promise<Outcome> {
    span?.set({ 'svc.outcome': 'requeued' });
    await leases.extendRequeued([job]);
    const earlierRuns = [...job.earlierRuns, { run, attempts: [...ledger.attempts()] }];
    return { outcome: 'requeue', job: { ...job, earlierRuns } };
  }

  /** What was delivered is charged. */
  async function fail(run: StartedRun, error: ApiError, received?: UsageCounter): Promise<Outcome> {
    return end(run, { outcome: 'failed', error, usage: await received?.() });
  }

  async function end(run: StartedRun, ending: RequestEnd): Promise<Outcome> {
    await endRequest(run, ending);
    return { outcome: 'done' };
  }
}
