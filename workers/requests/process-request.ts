import {
  type ApiError,
  clientGone,
  deadlineExceeded,
  replyLost,
  temporarilyUnavailable,
  toApiError,
  upstreamsExhausted,
  validationError,
  waitedTooLong,
} from '../../shared/errors.ts';
import { type InferenceJob, inferenceJobSchema } from '../../shared/jobs/inference-job.ts';
import type { Log } from '../../shared/process/log.ts';
import type { PlanFile } from '../../shared/process/plan-file.ts';
import { interrupted, promptUsage } from '../answers/answer-request.ts';
import type { FindAnswer, Found } from '../answers/find-answer.ts';
import type { Outcome, ProcessJob, Run, StartedRun, StopReason } from '../answers/run.ts';
import { createRunLedger } from '../answers/run-ledger.ts';
import { createWatchdog } from '../exchange/watchdog.ts';
import type { LeaseHeartbeat } from '../leases/beat-leases.ts';
import type { MarkStreaming } from '../leases/mark-streaming.ts';
import type { Start, StartRun } from '../leases/start-run.ts';
import type { ReplyFrames } from '../replies/reply-frames.ts';
import { createReplySender } from '../replies/send-reply.ts';
import type { ReaderWatch } from '../replies/watch-readers.ts';
import type { Ending, EndRequest } from './end-request.ts';
import type { RequestMetrics } from './request-metrics.ts';

const done: Outcome = { outcome: 'done' };

/** One job from its start to its reply. Every way out of here has told the client, or knows that nobody waits. */
export function createProcessRequest(deps: {
  planFile: Pick<PlanFile, 'models' | 'timeouts'>;
  startRun: StartRun;
  markStreaming: MarkStreaming;
  findAnswer: FindAnswer;
  endRequest: EndRequest;
  replyFrames: ReplyFrames;
  followReader: ReaderWatch['follow'];
  leases: Pick<LeaseHeartbeat, 'keep' | 'putBack'>;
  /** This worker's control stream, on which a run can be cancelled. */
  control: () => string | undefined;
  metrics: RequestMetrics;
  log: Log;
}): ProcessJob {
  const { endRequest, metrics, log } = deps;
  const { models, timeouts } = deps.planFile;

  return async function processRequest({ data, taken, signal, reservation }) {
    const takenAt = performance.now();
    const job = inferenceJobSchema.parse(data);
    const start = await deps.startRun({ ...job, taken });
    const { run } = start;
    using deadline = createWatchdog([signal]);
    const onGone = () => deadline.abort('ingress gone' satisfies StopReason);
    const reply = createReplySender({
      frames: deps.replyFrames,
      replyTo: job.replyTo,
      requestId: job.requestId,
      run,
      onGone,
      onFirstText: () => markStreaming(job, run),
    });
    const queueWaitMs = 'now' in start ? Math.max(0, start.now - job.admittedAt) : 0;
    const ledger = createRunLedger({ run, queueWaitMs });
    const common = { job, run, taken, takenAt, reply, ledger };
    if (start.outcome !== 'run') return refuse(common, start.outcome);

    metrics.queueWait.observe({ pool: poolOf(job), lane: 'interactive' }, queueWaitMs / 1000);
    deadline.expectWithin(start.remainingMs, () => 'deadline' satisfies StopReason);
    reply.started(deps.control() ?? '', queueWaitMs);
    const letGo = deps.leases.keep(job);
    const unfollow = deps.followReader(job.replyTo, onGone);
    const waitMs = Math.max(job.startBy - start.now, run > 1 ? timeouts.queueMs : 0);
    const startedAt = performance.now();
    const started: StartedRun = {
      ...common,
      lane: 'interactive',
      signal: deadline.signal,
      reservation,
      leftMs: () => startedAt + start.remainingMs - performance.now(),
      mayWaitMs: () => startedAt + waitMs - performance.now(),
    };
    try {
      return await conclude(started, await deps.findAnswer(started));
    } catch (error) {
      log.error({ err: error, requestId: job.requestId }, 'a request failed by a fault of ours');
      const usage = await started.received?.();
      await endRequest(started, { outcome: 'failed', error: toApiError(error), usage });
      return done;
    } finally {
      unfollow();
      letGo();
    }
  };

  /** It need not arrive before the text: an ingress to which text came follows no other run either. */
  function markStreaming({ account, requestId }: InferenceJob, run: number): void {
    deps.markStreaming({ account, requestId, run }).catch((error: unknown) => {
      log.warn({ err: error, requestId }, 'a lease could not be marked as streaming');
    });
  }

  async function refuse(run: Run, outcome: Exclude<Start['outcome'], 'run'>): Promise<Outcome> {
    metrics.notStarted.inc({ pool: poolOf(run.job), reason: outcome });
    if (outcome === 'late') await endRequest(run, { outcome: 'failed', error: waitedTooLong() });
    if (outcome === 'expired') await endRequest(run, { outcome: 'failed', error: deadlineExceeded() });
    // Settled by the ingress, which knows what it has delivered.
    if (outcome === 'interrupted') await run.reply.interrupted((await promptUsage(run.job)).promptTokens);
    if (outcome === 'settled') await run.reply.error(replyLost(false));
    if (outcome === 'gone') await run.reply.error(temporarilyUnavailable());
    // Whoever superseded this run ends the request.
    return done;
  }

  async function conclude(run: StartedRun, found: Found): Promise<Outcome> {
    switch (found.outcome) {
      case 'answered':
        return end(run, { outcome: 'completed', usage: found.answer.usage, answer: found.answer });
      case 'refused':
        return fail(run, validationError([{ path: 'request', message: found.message }]));
      case 'exhausted':
        return fail(run, upstreamsExhausted(run.job.tier, found.attempted));
      case 'interrupted':
        return fail(run, interrupted());
      case 'late':
        return fail(run, waitedTooLong());
      case 'stopped':
        return stop(run);
    }
  }

  async function stop(run: StartedRun): Promise<Outcome> {
    const reason = run.signal.reason as StopReason; // nothing else aborts this signal
    const { job, ledger } = run;
    log.debug({ requestId: job.requestId, reason }, 'a run was stopped');
    switch (reason) {
      case 'lock lost':
        // Another worker has the job, and ends the request.
        return done;
      case 'deadline':
        return fail(run, deadlineExceeded());
      case 'shutdown':
        return run.received === undefined ? handBack(run) : fail(run, interrupted());
      default: {
        // The client is gone, but the answer was produced and is charged; a call that had failed before has produced nothing.
        const wasCalling = ledger.attempts().at(-1)?.outcome === 'stopped';
        const usage = run.received?.() ?? (wasCalling ? promptUsage(job) : undefined);
        return end(run, { outcome: 'cancelled', error: clientGone(), usage: await usage });
      }
    }
  }

  async function handBack({ job, run, ledger }: StartedRun): Promise<Outcome> {
    await deps.leases.putBack([job]);
    const earlierRuns = [...job.earlierRuns, { run, attempts: [...ledger.attempts()] }];
    return { outcome: 'hand back', job: { ...job, earlierRuns } };
  }

  /** What was delivered is charged. */
  async function fail(run: StartedRun, error: ApiError): Promise<Outcome> {
    return end(run, { outcome: 'failed', error, usage: await run.received?.() });
  }

  async function end(run: Run, ending: Ending): Promise<Outcome> {
    await endRequest(run, ending);
    return done;
  }

  function poolOf({ model }: InferenceJob): string {
    return models[model]?.pool ?? 'none';
  }
}
