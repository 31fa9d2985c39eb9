import { toApiError } from '../errors.ts';
import type { SettleAnswer } from '../limits/settle.ts';

/** The position in a trace as it crosses processes, in the form of W3C Trace Context. The names are those of the headers. */
export type TraceContext = { traceparent: string; tracestate?: string | undefined };

/** Never the text of a client or of an answer, and never a secret: spans leave the service. Undefined ones are left out. */
export type SpanAttributes = Readonly<Record<string, string | number | boolean | undefined>>;

export type SpanOptions = {
  /** Default: a part of the work of one process. */
  kind?: 'server' | 'client' | 'producer' | 'consumer';
  attributes?: SpanAttributes;
  /** By `performance.now()`, if it began earlier. */
  startedAt?: number;
};

/** A part of the work on a request. Disposing of it ends it; only its first end counts. */
export interface Span extends Disposable {
  readonly traceId: string;
  /** With it, another process continues the trace. */
  context(): TraceContext;
  /** Starts a part of this part. */
  start(name: string, options?: SpanOptions): Span;
  rename(name: string): void;
  set(attributes: SpanAttributes): void;
  event(name: string): void;
  /** `error`: a code, if it failed. */
  end(error?: string): void;
}

export interface Tracing {
  /**
   * Starts a span in the trace of `parent`, or in a new trace if `parent` is missing or invalid. `client`: the trace of a client. It is
   * continued only if the sampler is one that obeys clients; otherwise the new trace has a link to it.
   */
  start(
    name: string,
    options: SpanOptions & { parent?: TraceContext | undefined; client?: TraceContext | undefined },
  ): Span;
  /** Whether spans of calls of backends have attributes of OpenTelemetry's conventions for generative AI. */
  genAi: boolean;
}

/** Does this work as a part of `parent`, if there is a trace. A failure ends the part with the code of the error. */
export function traced<Result>(
  parent: Span | undefined,
  part: SpanOptions & { name: string },
  work: (span: Span | undefined) => Promise<Result>,
): Promise<Result> {
  return parent === undefined ? work(undefined) : tracedIn(parent, part, work);
}

async function tracedIn<Result>(
  parent: Span,
  { name, ...options }: SpanOptions & { name: string },
  work: (span: Span) => Promise<Result>,
): Promise<Result> {
  using span = parent.start(name, options);
  try {
    return await work(span);
  } catch (error) {
    span.end(toApiError(error).code);
    throw error;
  }
}

/** OpenTelemetry's attributes of a span that sends a job to the queue of a model, or processes one. */
export function queueAttributes(operation: 'send' | 'process', model: string): SpanAttributes {
  return {
    'messaging.system': 'bullmq',
    'messaging.operation.name': operation,
    'messaging.operation.type': operation,
    'messaging.destination.name': model,
  };
}

/** Settles as a part of the run. `outcome` is that of the request. */
export function traceSettlement(
  run: Span | undefined,
  outcome: string,
  settle: () => Promise<SettleAnswer>,
): Promise<SettleAnswer> {
  if (run === undefined) return settle();
  return traced(run, { name: 'settle', attributes: { 'svc.outcome': outcome } }, async (span) => {
    const settled = await settle();
    span?.set({ 'svc.settled': settled });
    return settled;
  });
}
