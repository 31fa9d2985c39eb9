import { Counter, Histogram, type Registry } from 'prom-client';
import { BackendError } from '../../shared/endpoints/answers/backend-error.ts';
import { answerBytesMax } from '../../shared/endpoints/answers/parse-backend-json.ts';
import { endpointAt } from '../../shared/endpoints/endpoints.ts';
import type { Backend, PlanFile } from '../../shared/plan-file/plan-file.ts';
import type { Log } from '../../shared/process/log.ts';
import { durationBuckets } from '../../shared/process/metrics.ts';
import type { Tracing } from '../../shared/tracing/span.ts';
import { bodyFor, type CallLimit, type createOwnFields } from '../backend-client/body-for.ts';
import { type BackendCall, type CallBackend, createAnswerRoom } from '../backend-client/call-backend.ts';
import type { PromptTokens } from '../backends/backend-health.ts';
import type { CallHistory } from '../backends/call-history.ts';
import type { Slot, SlotEnd } from '../backends/reservation.ts';
import { type Answer, answerStream, answerWhole, type RunAnswer, type UsageCounter } from './answer-request.ts';
import type { CallLimits } from './call-limits.ts';
import { type Decision, decideOutcome } from './decide-outcome.ts';
import { causeOf, stopCauses } from './failure-cause.ts';
import { treatments } from './outcome.ts';
import type { AttemptEnd, CallingRun, StopReason } from './run.ts';
import { type AttemptSpan, traceAttempt } from './trace-run.ts';

/**
 * `failed`: the backend gave no answer. `stopped`: the call was aborted. `too_large`: its answer exceeds the limit of one answer. `fault`:
 * an error of ours. `received`: set once text was sent to the client. `produced`: set if the answer came as a stream, also if it is
 * assembled for the client.
 */
type Attempt = { received: UsageCounter | undefined; produced: UsageCounter | undefined } & (
  | { outcome: 'answered'; answer: Answer }
  | { outcome: 'failed'; decision: Decision }
  | { outcome: 'stopped' | 'too_large' }
  | { outcome: 'fault'; error: unknown }
);

type CallMetrics = Pick<AnswerMetrics, 'attempts' | 'attemptDuration' | 'firstToken' | 'refusals' | 'promptTokens'>;

/** Calls one backend for a run, and ends the slot of the call. */
type TryBackend = (run: CallingRun, slot: Slot) => Promise<Attempt>;

type Deps = {
  apiKeyOf: (backend: Backend) => string | undefined;
  callBackend: CallBackend;
  callLimits: CallLimits;
  ownFields: ReturnType<typeof createOwnFields>;
  firstTokenMs: () => number;
  models: () => PlanFile['models'];
  /** Undefined if requests are not traced. */
  tracing?: Pick<Tracing, 'genAi'> | undefined;
  metrics: CallMetrics;
  history: Pick<CallHistory, 'noteFirstToken' | 'noteEnd'>;
  log: Log;
};

export function createTryBackend(deps: Deps): TryBackend {
  const { callLimits, callBackend, log } = deps;
  const logAttempt = createAttemptLog(log);

  return async function tryBackend(run, slot) {
    const { job, signal } = run;
    const { name, backend } = slot;
    const measured = measure(deps, run, slot);
    const traced = traceAttempt(run.span, { job, name, backend, genAi: deps.tracing?.genAi ?? false });
    const begunAt = performance.now();
    const progress = createProgress((id) => {
      run.ledger.answeredAs(id);
      for (const each of [measured, traced, slot]) each.firstToken();
    });
    const hasText = () => progress.soFar().received !== undefined;

    function end(attempt: AttemptEnd, slotEnd: SlotEnd, answered?: Parameters<AttemptSpan['end']>[1]): void {
      slot.end(slotEnd);
      measured.end(attempt);
      traced.end(attempt.outcome, answered);
    }

    function call(limit: CallLimit): Promise<RunAnswer> {
      const called = callOf(deps, { run, slot, traced, limit, onHead: progress.noteHead });
      const given = { job, call: called, callBackend, reply: run.reply };
      return (job.stream ? answerStream : answerWhole)({ ...given, ...progress.callbacks });
    }

    try {
      const { isOverLimit, id, ...answer } = await callLimits.ask({ job, slot, signal, call, hasText });
      run.ledger.answeredAs(id);
      run.held.arrived();
      const prompt = answer.usage.estimated ? undefined : answer.usage;
      end({ outcome: isOverLimit ? 'over_limit' : 'answered' }, { outcome: 'answered', prompt }, { ...answer, id });
      measured.prompt(prompt);
      const logged = { requestId: job.requestId, backend: name };
      if (isOverLimit) log.warn(logged, 'a backend exceeded the output limit; its answer was cut');
      log.debug({ ...logged, usage: answer.usage }, 'answered');
      return { outcome: 'answered', answer, ...progress.soFar() };
    } catch (error) {
      run.held.release();
      const wasSilent = !progress.hasHead() && performance.now() - begunAt >= deps.firstTokenMs();
      const { attempt, slotEnd, result } = failureOf(error, { signal, hasText: hasText(), wasSilent });
      end({ ...attempt, address: new URL(backend.url).host }, slotEnd);
      if (result.outcome === 'failed') {
        const { requestId, model, endpoint } = job;
        logAttempt(error, result.decision, { requestId, backend: name, model, endpoint });
      }
      return { ...result, ...progress.soFar() };
    }
  };
}

type Failure = {
  attempt: AttemptEnd;
  slotEnd: SlotEnd;
  result:
    | { outcome: 'failed'; decision: Decision }
    | { outcome: 'stopped' | 'too_large' }
    | { outcome: 'fault'; error: unknown };
};

/** `wasSilent`: the backend had not begun to answer in the time for the first token. */
function failureOf(
  error: unknown,
  { signal, hasText, wasSilent }: { signal: AbortSignal; hasText: boolean; wasSilent: boolean },
): Failure {
  // An error in passing the answer on is ours, and no reason to ask another backend.
  if (!(error instanceof BackendError)) {
    return {
      attempt: { outcome: 'fault', cause: 'an internal error' },
      slotEnd: { outcome: 'abandoned' },
      result: { outcome: 'fault', error },
    };
  }
  if (signal.aborted) {
    // Whole answers have no first-token timeout: only the deadline shows that a backend is silent.
    const isSilent = wasSilent && signal.reason === 'deadline';
    const slotEnd: SlotEnd = isSilent ? { outcome: 'failed', evidence: 'silence' } : { outcome: 'abandoned' };
    const cause = stopCauses[signal.reason as StopReason]; // nothing else aborts the signal of a run
    return { attempt: { outcome: 'stopped', cause }, slotEnd, result: { outcome: 'stopped' } };
  }
  if (error.fault === 'too_large') {
    const result = { outcome: 'too_large' } as const;
    return { attempt: { ...result, cause: causeOf(error, undefined) }, slotEnd: { outcome: 'answered' }, result };
  }
  const decision = decideOutcome(error, { hasText });
  const { outcome, rule, status, isLoss } = decision;
  const attempt: AttemptEnd = { outcome, cause: causeOf(error, status), rule };
  if (status !== undefined) attempt.status = status;
  if (isLoss) attempt.isLoss = true;
  return { attempt, slotEnd: slotEndOf(decision), result: { outcome: 'failed', decision } };
}

type CallOptions = { run: CallingRun; slot: Slot; traced: AttemptSpan; limit: CallLimit; onHead: () => void };

function callOf(deps: Deps, { run, slot, traced, limit, onHead }: CallOptions): BackendCall {
  const { job, signal } = run;
  const { backend } = slot;
  const { answer: format } = endpointAt(job.endpoint);
  const bytesMax = deps.models()[job.model]?.answerBytesMax ?? format.bytesMax ?? answerBytesMax.text;
  return {
    backend,
    apiKey: deps.apiKeyOf(backend),
    path: job.endpoint.replace(/^\/v1/, ''),
    headers: job.headers ?? {},
    requestId: job.requestId,
    trace: traced.trace,
    body: bodyFor(job, backend, { own: deps.ownFields(run, backend), limit }),
    room: createAnswerRoom({ held: run.held, bytesMax }),
    signal,
    onHead,
    onToken: slot.noteToken,
    isBusy: slot.isBusy,
  };
}

/** What the end of a call shows about its backend, by the table of outcomes. */
function slotEndOf({ outcome, evidence = 'request', retryAfterMs }: Decision): SlotEnd {
  const { breaker, pause } = treatments[outcome];
  if (pause === 'as it asks, or longer each time') return { outcome: 'busy', retryAfterMs };
  if (pause === 'a second') return { outcome: 'loading' };
  if (breaker === 'by evidence') return { outcome: 'failed', evidence };
  return { outcome: breaker === 'success' ? 'answered' : 'alive' };
}

const warnEveryMs = 60_000;

/** Logs attempts without an answer: never with words of the backend, because they may quote the request. */
function createAttemptLog(log: Log) {
  const warnedAt = new Map<string, number>();

  /** The same backend lacks the same route for every request. */
  function isNew(key: string): boolean {
    const now = performance.now();
    if (now - (warnedAt.get(key) ?? Number.NEGATIVE_INFINITY) < warnEveryMs) return false;
    warnedAt.set(key, now);
    return true;
  }

  return function logAttempt(
    error: unknown,
    { outcome, rule, status, kinds }: Decision,
    about: { requestId: string; backend: string; model: string; endpoint: string },
  ): void {
    const fields = { ...about, outcome, rule, status, kinds };
    // Not every server counts tokens, and a refused request is the client's error.
    const isOptional = endpointAt(about.endpoint).answer.estimate !== undefined;
    if (outcome === 'failed' || outcome === 'interrupted') log.warn({ ...fields, err: error }, 'a backend failed');
    else if (outcome === 'not_offered' && !isOptional && isNew(`${about.backend} ${about.endpoint}`))
      log.warn(fields, 'a backend does not offer this endpoint or model');
    else log.debug(fields, 'a backend gave no answer');
  };
}

/** What has come of an answer so far. `onToken` is called at the first token, with the backend's id of the answer. */
function createProgress(onToken: (id: string | undefined) => void) {
  let hasHead = false;
  let produced: UsageCounter | undefined;
  let received: UsageCounter | undefined;
  return {
    callbacks: {
      onCalling(used: UsageCounter): void {
        produced = used;
      },
      onFirstToken({ isDelivered, id }: { isDelivered: boolean; id: string | undefined }): void {
        if (isDelivered) received = produced;
        onToken(id);
      },
    },
    noteHead(): void {
      hasHead = true;
    },
    hasHead: () => hasHead,
    soFar: () => ({ received, produced }),
  };
}

/** Measures a call for the metrics and for the usage record. */
function measure({ metrics, history }: Pick<Deps, 'metrics' | 'history'>, { job, ledger }: CallingRun, slot: Slot) {
  const { name, backend } = slot;
  const labels = { backend: name, model: job.model, endpoint: job.endpoint };
  const endTimer = metrics.attemptDuration.startTimer(labels);
  const endFirstToken = metrics.firstToken.startTimer(labels);
  const endAttempt = ledger.beginAttempt(name, backend.model);
  const called = { backend: name, model: job.model };
  return {
    firstToken() {
      ledger.firstToken();
      history.noteFirstToken({ ...called, ms: endFirstToken() * 1_000 });
    },
    prompt({ promptTokens, cachedTokens }: PromptTokens = { promptTokens: 0, cachedTokens: 0 }) {
      const { backend, model } = labels;
      metrics.promptTokens.inc({ backend, model, from: 'cache' }, cachedTokens);
      metrics.promptTokens.inc({ backend, model, from: 'computed' }, Math.max(0, promptTokens - cachedTokens));
    },
    end(end: AttemptEnd) {
      endTimer();
      endAttempt(end);
      history.noteEnd({ ...called, requestId: job.requestId, end });
      metrics.attempts.inc({ ...labels, outcome: end.outcome });
      if (end.rule !== undefined) metrics.refusals.inc({ backend: name, rule: end.rule });
    },
  };
}

export type AnswerMetrics = ReturnType<typeof createAnswerMetrics>;

export function createAnswerMetrics(registry: Registry) {
  const registers = [registry];
  return {
    retryRounds: new Counter({
      name: 'svc_backend_retry_rounds_total',
      help: 'Requests that tried the backends of their model a second time',
      labelNames: ['model', 'endpoint'],
      registers,
    }),
    attempts: new Counter({
      name: 'svc_backend_attempts_total',
      help: 'Calls to backends, by outcome',
      labelNames: ['backend', 'model', 'endpoint', 'outcome'],
      registers,
    }),
    refusals: new Counter({
      name: 'svc_backend_rules_total',
      help: 'Calls to backends without an answer, by the rule that recognised what the backend said',
      labelNames: ['backend', 'rule'],
      registers,
    }),
    promptTokens: new Counter({
      name: 'svc_backend_prompt_tokens_total',
      help: 'Tokens of prompts as backends have reported them: read from their prefix caches, or computed',
      labelNames: ['backend', 'model', 'from'],
      registers,
    }),
    attemptDuration: new Histogram({
      name: 'svc_backend_attempt_duration_seconds',
      help: 'Duration of calls to backends',
      labelNames: ['backend', 'model', 'endpoint'],
      buckets: durationBuckets,
      registers,
    }),
    firstToken: new Histogram({
      name: 'svc_backend_first_token_seconds',
      help: 'Time from the call of a backend to the first token of its stream',
      labelNames: ['backend', 'model', 'endpoint'],
      buckets: durationBuckets,
      registers,
    }),
  };
}
