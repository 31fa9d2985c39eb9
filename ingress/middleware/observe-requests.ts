import { endpoints } from '../../shared/endpoints/endpoints.ts';
import { errorStatus } from '../../shared/errors.ts';
import type { FleetCounts } from '../../shared/fleet/fleet-counts.ts';
import type { Log } from '../../shared/process/log.ts';
import { noModel } from '../../shared/process/metrics.ts';
import type { SpanAttributes, Tracing } from '../../shared/tracing/span.ts';
import type { RefusalCounts } from '../limits/count-refusals.ts';
import type { IngressMetrics } from '../metrics.ts';
import type { AppContext, RequestState, Stage } from '../request-state.ts';

type ObserveParts = {
  log: Log;
  metrics: IngressMetrics;
  refusals: Pick<RefusalCounts, 'count'>;
  fleetCounts: Pick<FleetCounts, 'add'>;
};

/**
 * Writes one log line and the observations of each request, when its response is complete or its client has disconnected. The page
 * `observability.md` lists the fields of the line (contract.md#w1-log-lines).
 */
export function logRequest({ log, metrics, refusals, fleetCounts }: ObserveParts): Stage {
  return function logRequest(ctx, next) {
    const startedAt = performance.now();
    ctx.res.once('close', () => record(ctx, startedAt));
    return next();
  };

  function record(ctx: AppContext, startedAt: number): void {
    const durationMs = performance.now() - startedAt;
    const { requestId, clientRequestId, address, caller, credential, errorCode } = ctx.state;
    const isComplete = ctx.res.writableFinished;
    const labels = {
      method: labelMethod(ctx.method),
      route: matchedRoute(ctx) ?? 'none',
      status: isComplete ? String(ctx.res.statusCode) : 'aborted',
    };
    metrics.requests.inc(labels);
    metrics.requestDuration.observe({ route: labels.route }, durationMs / 1000);
    const inference = inferencePaths.has(labels.route) ? { outcome: outcomeOf(ctx.state, isComplete) } : undefined;
    if (inference !== undefined) {
      observeInference(ctx, { ...inference, endpoint: labels.route, startedAt });
      countRefusal(ctx.state);
      fleetCounts.add(['request', errorCode ?? inference.outcome]);
    }
    log.info(
      {
        requestId,
        clientRequestId,
        address,
        account: caller?.account ?? (credential && 'account' in credential ? credential.account : undefined),
        keyId: caller?.keyId,
        ...labels,
        code: errorCode,
        durationMs: Math.round(durationMs),
        traceId: ctx.state.span?.traceId,
        ...(inference && inferenceFields(ctx, inference)),
      },
      isComplete ? 'answered' : 'the client disconnected',
    );
  }

  /** One that was admitted has a usage record, unless its admission is taken back, which can follow the answer. */
  function countRefusal({ errorCode: code, lease, caller }: RequestState): void {
    if (code === undefined) return;
    const isKnown = errorStatus(code) !== 401;
    const refusal = { account: (isKnown && caller?.account) || '', keyId: (isKnown && caller?.keyId) || '', code };
    if (lease === undefined || lease.isReleased) refusals.count(refusal);
    else lease.onReleased = () => refusals.count(refusal);
  }

  function observeInference(ctx: AppContext, { outcome, endpoint, startedAt }: ObservedInference): void {
    const { model = noModel, usage, streamed } = ctx.state;
    metrics.inferenceRequests.inc({ model, endpoint, outcome });
    if (streamed === undefined) return;
    metrics.firstToken.observe({ model, endpoint }, (streamed.firstTextAt - startedAt) / 1000);
    const later = (usage?.completionTokens ?? 0) - 1;
    if (later > 0) {
      metrics.timePerOutputToken.observe(
        { model, endpoint },
        (streamed.lastTextAt - streamed.firstTextAt) / 1000 / later,
      );
    }
  }
}

type ObservedInference = { outcome: RequestOutcome; endpoint: string; startedAt: number };

const inferencePaths: ReadonlySet<string> = new Set(endpoints.map(({ path }) => path));

function inferenceFields(ctx: AppContext, { outcome }: { outcome: RequestOutcome }) {
  const { model, usage, served } = ctx.state;
  return {
    endpoint: matchedRoute(ctx),
    model,
    outcome,
    backend: served?.backend,
    queueWaitMs: served?.queueWaitMs,
    firstTokenMs: served?.firstTokenMs ?? undefined,
    promptTokens: usage?.promptTokens,
    completionTokens: usage?.completionTokens,
    cachedTokens: usage?.cachedTokens,
  };
}

/**
 * Starts a span for the request: in the client's trace, or in a new one (contract.md#w3-traces). Without tracing, the stage does nothing.
 * A path or header of a client can hold a key, so the span has only the path of the route.
 */
export function traceRequest({ tracing }: { tracing: Tracing | undefined }): Stage {
  if (tracing === undefined) return (_ctx, next) => next();

  return function traceRequest(ctx, next) {
    const method = labelMethod(ctx.method);
    const span = tracing.start(method, {
      kind: 'server',
      client: traceOf(ctx),
      attributes: { 'http.request.method': method },
    });
    ctx.state.span = span;
    ctx.res.once('close', () => {
      const route = matchedRoute(ctx);
      if (route !== undefined) span.rename(`${method} ${route}`);
      span.set(attributesOf(ctx, route));
      span.end(errorOf(ctx));
    });
    return next();
  };
}

function traceOf({ req: { headers } }: AppContext) {
  const { traceparent, tracestate } = headers;
  if (typeof traceparent !== 'string') return undefined;
  return { traceparent, ...(typeof tracestate === 'string' && { tracestate }) };
}

function attributesOf({ res, state }: AppContext, route: string | undefined): SpanAttributes {
  const { requestId, address, caller, model, served, usage, errorCode } = state;
  return {
    'http.route': route,
    'http.response.status_code': res.headersSent ? res.statusCode : undefined,
    'client.address': address,
    'svc.request_id': requestId,
    'svc.account': caller?.account,
    'svc.key_id': caller?.keyId,
    'svc.model': model,
    'svc.backend': served?.backend,
    'svc.prompt_tokens': usage?.promptTokens,
    'svc.completion_tokens': usage?.completionTokens,
    'svc.error_code': errorCode,
  };
}

/** By OpenTelemetry's conventions, an error of the client is none of the server. */
function errorOf({ res, state: { errorCode } }: AppContext): string | undefined {
  if (!res.writableFinished && errorCode === undefined) return 'disconnected';
  return errorCode !== undefined && errorStatus(errorCode) >= 500 ? errorCode : undefined;
}

/**
 * How an inference request ended, as its client saw it. `repeated`: it got the answer of an earlier request with its idempotency key.
 * `refused`: it got an error of its own making (4xx), and `failed`: another error, as a status or at the end of a stream. `disconnected`:
 * the client left first.
 */
type RequestOutcome = 'completed' | 'repeated' | 'refused' | 'failed' | 'disconnected';

function outcomeOf(
  { errorCode, repeated }: Pick<RequestState, 'errorCode' | 'repeated'>,
  isComplete: boolean,
): RequestOutcome {
  if (errorCode !== undefined) return errorStatus(errorCode) >= 500 ? 'failed' : 'refused';
  if (!isComplete) return 'disconnected';
  return repeated === undefined ? 'completed' : 'repeated';
}

const methods = new Set(['GET', 'HEAD', 'POST', 'PATCH', 'DELETE', 'OPTIONS']);

/** The method comes from the client and could be any text, and each new label value creates a permanent time series. */
function labelMethod(method: string): string {
  return methods.has(method) ? method : 'other';
}

/** The path of the route that the router has found, with the names of its parameters; undefined if there is none. */
function matchedRoute(ctx: AppContext): string | undefined {
  const { _matchedRoute: route } = ctx as { _matchedRoute?: unknown }; // set by the router
  return typeof route === 'string' ? route : undefined;
}
