import { BackendError } from '../../shared/endpoints/answers/backend-error.ts';
import { answerBytesMax } from '../../shared/endpoints/answers/size-budget.ts';
import { endpointAt } from '../../shared/endpoints/routes.ts';
import type { Backend, PlanFile } from '../../shared/plan-file/plan-file.ts';
import type { Log } from '../../shared/process/log.ts';
import type { Tracing } from '../../shared/tracing/span.ts';
import type { CallOutcome } from '../backends/backend-health.ts';
import type { Slot } from '../backends/reservation.ts';
import { createAnswerRoom } from '../exchange/answer-room.ts';
import { bodyFor } from '../exchange/body-for.ts';
import type { CallBackend } from '../exchange/call-backend.ts';
import type { createOwnFields } from '../exchange/own-fields.ts';
import { traceAttempt } from '../tracing/trace-attempt.ts';
import type { AnswerMetrics } from './answer-metrics.ts';
import { type Answer, answerStream, answerWhole, type Received } from './answer-request.ts';
import type { CallingRun } from './run.ts';

/**
 * `failed`: the backend failed, or the call was aborted. `fault`: an error of ours. `received`: set once text was sent to the client.
 * `produced`: set if the answer came as a stream, also if it is assembled for the client.
 */
export type Attempt = { received: Received | undefined; produced: Received | undefined } & (
  | { outcome: 'answered'; answer: Answer }
  | { outcome: 'failed'; error: BackendError }
  | { outcome: 'fault'; error: unknown }
);

type CallMetrics = Pick<AnswerMetrics, 'attempts' | 'attemptDuration' | 'firstToken'>;

/** Calls one backend for a run, and ends the slot of the call. */
export type TryBackend = (run: CallingRun, slot: Slot) => Promise<Attempt>;

export function createTryBackend(deps: {
  apiKeyOf: (backend: Backend) => string | undefined;
  callBackend: CallBackend;
  ownFields: ReturnType<typeof createOwnFields>;
  firstTokenMs: () => number;
  models: () => PlanFile['models'];
  /** Undefined if requests are not traced. */
  tracing?: Pick<Tracing, 'genAi'> | undefined;
  metrics: CallMetrics;
  log: Log;
}): TryBackend {
  const { metrics, log } = deps;

  return async function tryBackend(run, slot) {
    const { job, reply, signal } = run;
    const { name, backend } = slot;
    const measured = measure(metrics, run, slot);
    const traced = traceAttempt(run.span, { job, name, backend, genAi: deps.tracing?.genAi ?? false });
    const { answer: format } = endpointAt(job.endpoint);
    const bytesMax = deps.models()[job.model]?.answerBytesMax ?? format.bytesMax ?? answerBytesMax.text;
    const call = {
      backend,
      apiKey: deps.apiKeyOf(backend),
      path: job.endpoint.replace(/^\/v1/, ''),
      headers: job.headers ?? {},
      isOptional: format.estimate !== undefined,
      requestId: job.requestId,
      trace: traced.trace,
      body: bodyFor(job, backend, deps.ownFields(run, backend)),
      room: createAnswerRoom({ held: run.held, bytesMax }),
      signal,
    };
    const begunAt = performance.now();
    const progress = createProgress((id) => {
      run.ledger.answeredAs(id);
      for (const each of [measured, traced, slot]) each.firstToken();
    });
    try {
      const answerJob = job.stream ? answerStream : answerWhole;
      const { callBackend } = deps;
      const { isOverLimit, id, ...answer } = await answerJob({ job, call, callBackend, reply, ...progress.callbacks });
      run.ledger.answeredAs(id);
      run.held.arrived();
      slot.end('answered');
      measured.end(isOverLimit ? 'over_limit' : 'completed');
      traced.end(isOverLimit ? 'over_limit' : 'completed', { ...answer, id });
      const logged = { requestId: job.requestId, backend: name };
      if (isOverLimit) log.warn(logged, 'a backend exceeded the output limit; its answer was cut');
      log.debug({ ...logged, usage: answer.usage }, 'answered');
      return { outcome: 'answered', answer, ...progress.soFar() };
    } catch (error) {
      run.held.release();
      // An error in passing the answer on is ours, and no reason to ask another backend.
      if (!(error instanceof BackendError)) {
        slot.end('abandoned');
        measured.end('fault');
        traced.end('fault');
        return { outcome: 'fault', error, ...progress.soFar() };
      }
      const outcome = signal.aborted ? 'stopped' : error.outcome;
      // Whole answers have no first-token timeout: only the deadline shows that a backend is silent.
      const wasSilent =
        signal.reason === 'deadline' && !progress.hasBegun() && performance.now() - begunAt >= deps.firstTokenMs();
      slot.end(wasSilent ? 'failed' : callOutcomeOf(outcome), error.retryAfterMs);
      measured.end(outcome);
      traced.end(outcome);
      // A refused request is the client's error, and the backend's message may quote the request.
      if (
        outcome !== 'stopped' &&
        outcome !== 'refused_request' &&
        outcome !== 'not_offered' &&
        outcome !== 'too_large'
      )
        log.warn({ err: error, requestId: job.requestId, backend: name }, 'a backend failed');
      return { outcome: 'failed', error, ...progress.soFar() };
    }
  };
}

/** What has come of an answer so far. `onToken` is called at the first token, with the backend's id of the answer. */
function createProgress(onToken: (id: string | undefined) => void) {
  let hasBegun = false;
  let produced: Received | undefined;
  let received: Received | undefined;
  return {
    callbacks: {
      onCalling(used: Received): void {
        produced = used;
      },
      onFirstToken({ isDelivered, id }: { isDelivered: boolean; id: string | undefined }): void {
        hasBegun = true;
        if (isDelivered) received = produced;
        onToken(id);
      },
    },
    hasBegun: () => hasBegun,
    soFar: () => ({ received, produced }),
  };
}

/** Measures a call for the metrics and for the usage record. */
function measure(metrics: CallMetrics, { job, ledger }: CallingRun, { name, backend }: Slot) {
  const labels = { backend: name, model: job.model, endpoint: job.endpoint };
  const endTimer = metrics.attemptDuration.startTimer(labels);
  const endFirstToken = metrics.firstToken.startTimer(labels);
  const endAttempt = ledger.beginAttempt(name, backend.model);
  return {
    firstToken() {
      ledger.firstToken();
      endFirstToken();
    },
    end(outcome: BackendError['outcome']) {
      endTimer();
      endAttempt(outcome);
      metrics.attempts.inc({ ...labels, outcome });
    },
  };
}

/** What a failed call shows about the health of its backend. */
function callOutcomeOf(outcome: BackendError['outcome']): CallOutcome {
  if (outcome === 'stopped') return 'abandoned';
  return outcome === 'refused_request' || outcome === 'not_offered' || outcome === 'too_large' ? 'answered' : 'failed';
}
