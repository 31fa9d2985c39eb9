import { endpoints } from '../../../shared/endpoints/routes.ts';
import type { Log } from '../../../shared/process/log.ts';
import { noModel } from '../../../shared/process/metrics.ts';
import type { IngressMetrics } from '../../metrics.ts';
import type { AppContext, Stage } from '../../request-state.ts';
import { labelMethod, matchedRoute } from './request-labels.ts';
import { outcomeOf, type RequestOutcome } from './request-outcome.ts';

/**
 * Writes one log line and the observations of each request, when its response is complete or its client has disconnected. The page
 * `observability.md` lists the fields of the line (contract.md#w1-log-lines).
 */
export function logRequest({ log, metrics }: { log: Log; metrics: IngressMetrics }): Stage {
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
    if (inference !== undefined) observeInference(ctx, { ...inference, endpoint: labels.route, startedAt });
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
