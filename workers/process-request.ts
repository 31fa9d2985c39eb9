import type { Redis } from 'ioredis';
import {
  clientGone,
  deadlineExceeded,
  replyLost,
  temporarilyUnavailable,
  toApiError,
  upstreamsExhausted,
  validationError,
  waitedTooLong,
} from '../shared/errors.ts';
import { type InferenceJob, inferenceJobSchema } from '../shared/inference-job.ts';
import type { MarkStreaming } from '../shared/limits/mark-streaming.ts';
import type { Start, StartRun } from '../shared/limits/start.ts';
import type { Log } from '../shared/log.ts';
import type { Backend, PlanFile } from '../shared/plan-file.ts';
import type { Usage } from '../shared/replies.ts';
import { answerStream, answerWhole, interrupted, promptUsage } from './answer-request.ts';
import { BackendError } from './backends/backend-error.ts';
import { bodyFor } from './backends/body-for.ts';
import type { CallBackend } from './backends/call-backend.ts';
import { chooseBackends } from './backends/choose-backends.ts';
import { createWatchdog } from './backends/watchdog.ts';
import type { Ending, EndRequest, Run } from './end-request.ts';
import type { WorkerMetrics } from './metrics.ts';
import { createReplySender } from './replies/send-reply.ts';
import { createRunLedger } from './run-ledger.ts';

type Parts = {
  planFile: PlanFile;
  apiKeys: Readonly<Record<string, string>>;
  startRun: StartRun;
  markStreaming: MarkStreaming;
  endRequest: EndRequest;
  callBackend: CallBackend;
  replyRedis: Redis;
  /** This worker's control stream, on which a run can be cancelled. */
  control: () => string | undefined;
  metrics: WorkerMetrics;
  log: Log;
};

/** Why a run ends before its answer: the reason that its signal is aborted with. */
export type StopReason = 'cancelled' | 'ingress gone' | 'lock lost' | 'shutdown' | 'deadline';

/** `hand back`: nothing was sent yet, and another worker is to run the job as it is given here. */
export type Outcome = { outcome: 'done' } | { outcome: 'hand back'; job: InferenceJob };

/** `taken` is how often the job was taken from its queue, this time included; `signal` is aborted with a `StopReason`. */
export type ProcessRequest = (given: { data: unknown; taken: number; signal: AbortSignal }) => Promise<Outcome>;

type StartedRun = Run & { signal: AbortSignal; received?: () => Promise<Usage> };
type Attempt = { outcome: 'answered'; ending: Ending } | { outcome: 'failed'; error: BackendError };

const done: Outcome = { outcome: 'done' };

/** One job from its start to its reply. Every way out of here has told the client, or knows that nobody waits. */
export function createProcessRequest(parts: Parts): ProcessRequest {
  const { planFile, endRequest, metrics, log } = parts;

  return async function processRequest({ data, taken, signal }) {
    const takenAt = performance.now();
    const job = inferenceJobSchema.parse(data);
    const start = await parts.startRun({ ...job, taken });
    const gone = new AbortController();
    const { run } = start;
    const reply = createReplySender({
      redis: parts.replyRedis,
      replyTo: job.replyTo,
      requestId: job.requestId,
      run,
      onGone: () => gone.abort('ingress gone' satisfies StopReason),
      onFirstText: () => markStreaming(job, run),
    });
    const queueWaitMs = 'now' in start ? Math.max(0, start.now - job.admittedAt) : 0;
    const ledger = createRunLedger({ run, queueWaitMs });
    const common = { job, run, taken, takenAt, reply, ledger };
    if (start.outcome !== 'run') return refuse(common, start.outcome);

    metrics.queueWait.observe({ pool: poolOf(job), lane: 'interactive' }, queueWaitMs / 1000);
    using deadline = createWatchdog(AbortSignal.any([signal, gone.signal]));
    deadline.expectWithin(start.remainingMs, () => 'deadline' satisfies StopReason);
    reply.started(parts.control() ?? '');
    const started: StartedRun = { ...common, signal: deadline.signal };
    try {
      return await tryBackends(started);
    } catch (error) {
      log.error({ err: error, requestId: job.requestId }, 'a request failed by a fault of ours');
      const usage = await started.received?.();
      await endRequest(started, { outcome: 'failed', error: toApiError(error), usage });
      return done;
    }
  };

  /** It need not arrive before the text: an ingress to which text came follows no other run either. */
  function markStreaming({ account, requestId }: InferenceJob, run: number): void {
    parts.markStreaming({ account, requestId, run }).catch((error: unknown) => {
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

  /** Until its first token a stream, and until its end a whole answer, can move on to the next backend. */
  async function tryBackends(run: StartedRun): Promise<Outcome> {
    const attempted: string[] = [];
    for (const name of chooseBackends(run.job.model, planFile)) {
      const backend = planFile.backends[name];
      if (backend === undefined) continue;
      if (run.signal.aborted) return stop(run);
      attempted.push(name);
      const attempt = await tryBackend(run, name, backend);
      if (attempt.outcome === 'answered') return end(run, attempt.ending);
      if (run.signal.aborted) return stop(run);
      if (attempt.error.outcome === 'refused_request') {
        const refused = validationError([{ path: 'request', message: attempt.error.message }]);
        return end(run, { outcome: 'failed', error: refused });
      }
      // What was delivered is charged (API D4).
      if (run.received) return end(run, { outcome: 'failed', error: interrupted(), usage: await run.received() });
    }
    const exhausted = upstreamsExhausted(planFile.models[run.job.model]?.tier ?? '', attempted);
    return end(run, { outcome: 'failed', error: exhausted });
  }

  async function tryBackend(run: StartedRun, name: string, backend: Backend): Promise<Attempt> {
    const { job, reply, ledger, signal } = run;
    const labels = { backend: name, model: job.model };
    const endTimer = metrics.attemptDuration.startTimer(labels);
    const endFirstToken = metrics.firstToken.startTimer(labels);
    const endAttempt = ledger.beginAttempt(name);
    const onFirstToken = (received: () => Promise<Usage>) => {
      run.received = received;
      ledger.firstToken();
      endFirstToken();
    };
    const call = {
      backend,
      apiKey: parts.apiKeys[name],
      requestId: job.requestId,
      body: bodyFor(job, backend),
      signal,
    };
    try {
      const answer = job.stream ? answerStream : answerWhole;
      const answered = await answer({ job, call, callBackend: parts.callBackend, reply, onFirstToken });
      metrics.attempts.inc({ ...labels, outcome: 'completed' });
      endAttempt('completed');
      log.debug({ requestId: job.requestId, backend: name, usage: answered.usage }, 'answered');
      return { outcome: 'answered', ending: { outcome: 'completed', usage: answered.usage, answer: answered } };
    } catch (error) {
      // A fault in passing the answer on is ours, and no reason to ask another backend.
      if (!(error instanceof BackendError)) {
        endAttempt('fault');
        metrics.attempts.inc({ ...labels, outcome: 'fault' });
        throw error;
      }
      const outcome = signal.aborted ? 'stopped' : error.outcome;
      metrics.attempts.inc({ ...labels, outcome });
      endAttempt(outcome);
      // A refused request is the client's affair, and the backend's words may quote it.
      if (outcome !== 'stopped' && outcome !== 'refused_request')
        log.warn({ err: error, requestId: job.requestId, backend: name }, 'a backend failed');
      return { outcome: 'failed', error };
    } finally {
      endTimer();
    }
  }

  async function stop(run: StartedRun): Promise<Outcome> {
    const reason = run.signal.reason as StopReason; // nothing else aborts this signal
    const { job, ledger, received } = run;
    log.debug({ requestId: job.requestId, reason }, 'a run was stopped');
    switch (reason) {
      case 'lock lost':
        // Another worker has the job, and ends the request.
        return done;
      case 'deadline':
        return end(run, { outcome: 'failed', error: deadlineExceeded(), usage: await received?.() });
      case 'shutdown': {
        if (received !== undefined)
          return end(run, { outcome: 'failed', error: interrupted(), usage: await received() });
        const earlierRuns = [...job.earlierRuns, { run: run.run, attempts: [...ledger.attempts()] }];
        return { outcome: 'hand back', job: { ...job, earlierRuns } };
      }
      default: {
        // What nobody reads any more was produced all the same (API D7).
        const usage = ledger.attempts().length === 0 ? undefined : await (received?.() ?? promptUsage(job));
        return end(run, { outcome: 'cancelled', error: clientGone(), usage });
      }
    }
  }

  async function end(run: Run, ending: Ending): Promise<Outcome> {
    await endRequest(run, ending);
    return done;
  }

  function poolOf({ model }: InferenceJob): string {
    return planFile.models[model]?.pool ?? 'none';
  }
}
