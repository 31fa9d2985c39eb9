import type { Log } from '../../shared/process/log.ts';
import type { IngressMetrics } from '../metrics.ts';
import type { AppContext, Stage } from '../request-state.ts';

/** Writes one log line and one observation for each request, when its response is complete or its client has disconnected. */
export function logRequest({ log, metrics }: { log: Log; metrics: IngressMetrics }): Stage {
  return function logRequest(ctx, next) {
    const startedAt = performance.now();
    ctx.res.once('close', () => record(ctx, performance.now() - startedAt));
    return next();
  };

  function record(ctx: AppContext, durationMs: number): void {
    const { requestId, clientRequestId, address, caller, credential, usage } = ctx.state;
    const isComplete = ctx.res.writableFinished;
    const labels = {
      method: labelMethod(ctx.method),
      route: labelRoute(ctx),
      status: isComplete ? String(ctx.res.statusCode) : 'aborted',
    };
    metrics.requests.inc(labels);
    metrics.requestDuration.observe({ route: labels.route }, durationMs / 1000);
    log.info(
      {
        requestId,
        clientRequestId,
        address,
        account: caller?.account ?? (credential && 'account' in credential ? credential.account : undefined),
        ...labels,
        durationMs: Math.round(durationMs),
        ...(usage && { promptTokens: usage.promptTokens, completionTokens: usage.completionTokens }),
      },
      isComplete ? 'answered' : 'the client disconnected',
    );
  }
}

const methods = new Set(['GET', 'HEAD', 'POST', 'PATCH', 'DELETE', 'OPTIONS']);

/** The method comes from the client and could be any text, and each new label value creates a permanent time series. */
function labelMethod(method: string): string {
  return methods.has(method) ? method : 'other';
}

function labelRoute(ctx: AppContext): string {
  const { _matchedRoute: route } = ctx as { _matchedRoute?: unknown }; // set by the router
  return typeof route === 'string' ? route : 'none';
}
