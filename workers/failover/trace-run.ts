import type { QueuedCall } from '../../shared/jobs/inference-job.ts';
import type { TokenUsage } from '../../shared/jobs/replies.ts';
import type { Backend } from '../../shared/plan-file/plan-file.ts';
import type { Lane } from '../../shared/redis/keys.ts';
import {
  queueAttributes,
  type Span,
  type SpanAttributes,
  type TraceContext,
  type Tracing,
} from '../../shared/tracing/span.ts';
import { isAssembled } from '../backend-client/body-for.ts';

type TracedRun = {
  job: Pick<QueuedCall, 'requestId' | 'model' | 'endpoint'> & { trace?: TraceContext | undefined; batch?: string };
  run: number;
  lane: Lane;
  queueWaitMs: number;
};

/**
 * Starts the span of a run in the trace of its job, beside one for its time in the queue. A line of a batch, and a job of an ingress that
 * does not trace, begin a trace.
 */
export function traceRun(
  tracing: Tracing | undefined,
  { job: { requestId, model, endpoint, trace, batch }, run, lane, queueWaitMs }: TracedRun,
): Span | undefined {
  if (tracing === undefined) return undefined;
  const startedAt = performance.now() - queueWaitMs;
  const attributes = {
    ...queueAttributes('process', model),
    'svc.request_id': requestId,
    'svc.model': model,
    'svc.endpoint': endpoint,
    'svc.lane': lane,
    'svc.run': run,
    'svc.batch': batch,
  };
  if (trace === undefined) {
    const span = tracing.start(`process ${model}`, { kind: 'consumer', startedAt, attributes });
    span.start('queue', { startedAt }).end();
    return span;
  }
  tracing.start('queue', { parent: trace, startedAt }).end();
  return tracing.start(`process ${model}`, { kind: 'consumer', parent: trace, attributes });
}

/** The span of one call of a backend. */
export interface AttemptSpan {
  /** The trace that the backend continues. */
  readonly trace: TraceContext | undefined;
  firstToken(): void;
  /** `answered`: what is known of a complete answer. */
  end(outcome: string, answered?: { usage: TokenUsage; id: string | undefined }): void;
}

type TracedAttempt = {
  job: Pick<QueuedCall, 'endpoint' | 'model' | 'stream' | 'assembled' | 'outputTokensMax' | 'choices'>;
  name: string;
  backend: Backend;
  /** Whether it has the attributes of OpenTelemetry's conventions for generative AI, which are not stable yet. */
  genAi: boolean;
};

const noSpan: AttemptSpan = { trace: undefined, firstToken() {}, end() {} };

/** Starts a span for a call of a backend, and one from its first token to its end. */
export function traceAttempt(run: Span | undefined, attempted: TracedAttempt): AttemptSpan {
  if (run === undefined) return noSpan;
  const { name, genAi } = attempted;
  const conventional = genAi ? genAiRequest(attempted) : undefined;
  const span = run.start(conventional?.name ?? `call ${name}`, {
    kind: 'client',
    attributes: { ...addressOf(attempted.backend), 'svc.backend': name, ...conventional?.attributes },
  });
  const startedAt = performance.now();
  let stream: Span | undefined;
  return {
    trace: span.context(),
    firstToken() {
      span.event('first token');
      if (genAi) span.set({ 'gen_ai.response.time_to_first_chunk': (performance.now() - startedAt) / 1_000 });
      stream ??= span.start('stream');
    },
    end(outcome, answered) {
      stream?.end();
      span.set({ 'svc.outcome': outcome, ...(genAi && answered && genAiAnswer(answered)) });
      span.end(isSuccess(outcome) ? undefined : outcome);
    },
  };
}

function isSuccess(outcome: string): boolean {
  return outcome === 'answered' || outcome === 'over_limit';
}

function addressOf({ url, location }: TracedAttempt['backend']): SpanAttributes {
  const { hostname, port, protocol } = new URL(url);
  const usual = protocol === 'https:' ? 443 : 80;
  return { 'server.address': hostname, 'server.port': port === '' ? usual : Number(port), 'svc.location': location };
}

/** By the path of the endpoint: the operation, and whose API it has. The model server behind it may be any. */
const operations: Readonly<Record<string, { operation: string; provider: string }>> = {
  '/v1/completions': { operation: 'text_completion', provider: 'openai' },
  '/v1/embeddings': { operation: 'embeddings', provider: 'openai' },
  '/v1/messages': { operation: 'chat', provider: 'anthropic' },
  '/v1/messages/count_tokens': { operation: 'count_tokens', provider: 'anthropic' },
  '/v1/rerank': { operation: 'rerank', provider: 'cohere' },
};

function genAiRequest({ job, backend }: TracedAttempt): { name: string; attributes: SpanAttributes } {
  const { operation, provider } = operations[job.endpoint] ?? { operation: 'chat', provider: 'openai' };
  const model = backend.model ?? job.model;
  const attributes = {
    'gen_ai.operation.name': operation,
    'gen_ai.provider.name': provider,
    'gen_ai.request.model': model,
    'gen_ai.request.stream': job.stream || isAssembled(job, backend),
    'gen_ai.request.max_tokens': job.outputTokensMax === 0 ? undefined : job.outputTokensMax,
    'gen_ai.request.choice.count': job.choices === 1 ? undefined : job.choices,
  };
  return { name: `${operation} ${model}`, attributes };
}

function genAiAnswer({ usage, id }: { usage: TokenUsage; id: string | undefined }): SpanAttributes {
  return {
    'gen_ai.response.id': id,
    'gen_ai.usage.input_tokens': usage.promptTokens,
    'gen_ai.usage.output_tokens': usage.completionTokens,
    'gen_ai.usage.cache_read.input_tokens': usage.cachedTokens,
  };
}
