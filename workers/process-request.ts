import type { Redis } from 'ioredis';
import { deadlineExceeded, toApiError, upstreamsExhausted, validationError, waitedTooLong } from '../shared/errors.ts';
import { type InferenceJob, inferenceJobSchema } from '../shared/inference-job.ts';
import type { Start, StartRun } from '../shared/limits/start.ts';
import type { Log } from '../shared/log.ts';
import type { Backend, PlanFile } from '../shared/plan-file.ts';
import { answerStream, answerWhole, interrupted } from './answer-request.ts';
import { BackendError } from './backends/backend-error.ts';
import type { CallBackend } from './backends/call-backend.ts';
import { chooseBackends } from './backends/choose-backends.ts';
import { createWatchdog } from './backends/watchdog.ts';
import type { WorkerMetrics } from './metrics.ts';
import { createReplySender, type ReplySender } from './replies/send-reply.ts';

type Parts = {
  planFile: PlanFile;
  apiKeys: Readonly<Record<string, string>>;
  startRun: StartRun;
  callBackend: CallBackend;
  replyRedis: Redis;
  /** This worker's control stream, on which a run can be cancelled. */
  control: () => string | undefined;
  metrics: WorkerMetrics;
  log: Log;
};

/** Why a run ends before its answer: the reason that its signal is aborted with. */
export type StopReason = 'cancelled' | 'ingress gone' | 'lock lost' | 'shutdown' | 'deadline';

/** `hand back`: nothing was sent yet, and another worker is to run the job. */
export type Outcome = 'done' | 'hand back';

/** `execution` is an id of this one execution of the job; `signal` is aborted with a `StopReason`. */
export type ProcessRequest = (given: { data: unknown; execution: string; signal: AbortSignal }) => Promise<Outcome>;

type Run = { job: InferenceJob; reply: ReplySender; signal: AbortSignal };
type Attempt = { outcome: 'answered' } | { outcome: 'failed'; error: BackendError; begun: boolean };

/** One job from its start to its reply. Every way out of here has told the client, or knows that nobody waits. */
export function createProcessRequest(parts: Parts): ProcessRequest {
  const { planFile, metrics, log } = parts;

  return async function processRequest({ data, execution, signal }) {
    const job = inferenceJobSchema.parse(data);
    const start = await parts.startRun({ ...job, execution });
    const gone = new AbortController();
    const reply = createReplySender({
      redis: parts.replyRedis,
      replyTo: job.replyTo,
      requestId: job.requestId,
      run: start.run,
      onGone: () => gone.abort('ingress gone' satisfies StopReason),
    });
    if (start.outcome !== 'run') return refuse(job, reply, start.outcome);

    observeWait(job, start.now);
    using deadline = createWatchdog(AbortSignal.any([signal, gone.signal]));
    deadline.expectWithin(start.remainingMs, () => 'deadline' satisfies StopReason);
    reply.started(parts.control() ?? '');
    try {
      return await tryBackends({ job, reply, signal: deadline.signal });
    } catch (error) {
      log.error({ err: error, requestId: job.requestId }, 'a request failed by a fault of ours');
      await reply.error(toApiError(error));
      return 'done';
    }
  };

  async function refuse(
    job: InferenceJob,
    reply: ReplySender,
    outcome: Exclude<Start['outcome'], 'run'>,
  ): Promise<Outcome> {
    metrics.notStarted.inc({ pool: poolOf(job), reason: outcome });
    await reply.error(outcome === 'late' ? waitedTooLong() : deadlineExceeded());
    return 'done';
  }

  /** Until its first token a stream, and until its end a whole answer, can move on to the next backend. */
  async function tryBackends(run: Run): Promise<Outcome> {
    const attempted: string[] = [];
    for (const name of chooseBackends(run.job.model, planFile)) {
      const backend = planFile.backends[name];
      if (backend === undefined) continue;
      attempted.push(name);
      const attempt = await tryBackend(run, name, backend);
      if (attempt.outcome === 'answered') return 'done';
      if (run.signal.aborted) return stop(run, attempt.begun);
      if (attempt.error.outcome === 'refused_request') {
        await run.reply.error(validationError([{ path: 'request', message: attempt.error.message }]));
        return 'done';
      }
      if (attempt.begun) {
        await run.reply.error(interrupted());
        return 'done';
      }
    }
    await run.reply.error(upstreamsExhausted(planFile.models[run.job.model]?.tier ?? '', attempted));
    return 'done';
  }

  async function tryBackend({ job, reply, signal }: Run, name: string, backend: Backend): Promise<Attempt> {
    const labels = { backend: name, model: job.model };
    const endTimer = metrics.attemptDuration.startTimer(labels);
    const endFirstToken = metrics.firstToken.startTimer(labels);
    let begun = false;
    const onFirstToken = () => {
      begun = true;
      endFirstToken();
    };
    const call = { backend, apiKey: parts.apiKeys[name], body: bodyFor(job, backend), signal };
    try {
      const answer = job.stream ? answerStream : answerWhole;
      const usage = await answer({ job, call, callBackend: parts.callBackend, reply, onFirstToken });
      metrics.attempts.inc({ ...labels, outcome: 'completed' });
      log.debug({ requestId: job.requestId, backend: name, usage }, 'answered');
      return { outcome: 'answered' };
    } catch (error) {
      // A fault in passing the answer on is ours, and no reason to ask another backend.
      if (!(error instanceof BackendError)) throw error;
      metrics.attempts.inc({ ...labels, outcome: signal.aborted ? 'stopped' : error.outcome });
      // A refused request is the client's affair, and the backend's words may quote it.
      if (!signal.aborted && error.outcome !== 'refused_request')
        log.warn({ err: error, requestId: job.requestId, backend: name }, 'a backend failed');
      return { outcome: 'failed', error, begun };
    } finally {
      endTimer();
    }
  }

  async function stop({ job, reply, signal }: Run, begun: boolean): Promise<Outcome> {
    const reason = signal.reason as StopReason; // nothing else aborts this signal
    log.debug({ requestId: job.requestId, reason }, 'a run was stopped');
    if (reason === 'deadline') await reply.error(deadlineExceeded());
    if (reason === 'shutdown' && !begun) return 'hand back';
    if (reason === 'shutdown') await reply.error(interrupted());
    // Of the others nobody waits for a word from this run: its client or ingress has left, or another worker has the job.
    return 'done';
  }

  function observeWait(job: InferenceJob, now: number): void {
    metrics.queueWait.observe({ pool: poolOf(job), lane: 'interactive' }, (now - job.admittedAt) / 1000);
  }

  function poolOf({ model }: InferenceJob): string {
    return planFile.models[model]?.pool ?? 'none';
  }
}

/** The queued object with the backend's own name for the model put in front. */
function bodyFor({ body, model }: InferenceJob, backend: Backend): string {
  return `{"model":${JSON.stringify(backend.model ?? model)},${body.slice(1)}`;
}
