import { errorStatus } from '../../../shared/errors.ts';
import type { SpanAttributes, Tracing } from '../../../shared/tracing/span.ts';
import type { AppContext, Stage } from '../../request-state.ts';
import { labelMethod, matchedRoute } from './request-labels.ts';

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
