import type { Call } from '../../shared/endpoints/definition/read-call.ts';
import { refuseLargerThanLimit } from '../../shared/endpoints/tokens/request-cost.ts';
import { planLimit, temporarilyUnavailable, toApiError } from '../../shared/errors.ts';
import { type Claim, claimBytes, type HeldClaim } from '../../shared/jobs/idempotency.ts';
import { lostReport } from '../../shared/jobs/usage-outbox.ts';
import { allowanceOf } from '../../shared/limits/quota.ts';
import { type PlanFile, queueMsOf } from '../../shared/plan-file/plan-file.ts';
import { type Caller, holderOf } from '../../shared/store/records/account.ts';
import { refuseOutsideKey } from '../../shared/store/records/key.ts';
import { type Span, traced } from '../../shared/tracing/span.ts';
import type { CheckCaller, DecideCharge } from '../authentication/check-caller.ts';
import { limitError, limitHeaders, withShare } from '../limits/limit-errors.ts';
import type { LimitPeaksOf } from '../limits/limit-peaks.ts';
import { overloadError, setHeaders } from '../listener/request-headers.ts';
import type { IngressMetrics } from '../metrics.ts';
import type { QueueBounds, QueuePlace } from '../queue/queue-bounds.ts';
import { type AppContext, type Stage, stateOf } from '../request-state.ts';
import { beginCallerCheck } from './authenticate.ts';
import { repeatRefused } from './idempotency.ts';

type Bounds = { planFile: PlanFile; fairShare: number | undefined };

/**
 * Admits a request to the queue; nothing is queued without it. Checks that the caller is current, that its plan includes the model and that
 * no limit would be exceeded. Then creates the lease, with times by Redis's clock. A model outside the plan is 429 `plan_limit`. A request
 * that is larger than a limit, and so could never pass, is 400.
 */
export function admitRequest({
  checkCaller,
  topupUrl,
  limitPeaks,
  metrics,
}: {
  checkCaller: CheckCaller;
  topupUrl: string;
  limitPeaks: Pick<LimitPeaksOf, 'note'>;
  metrics: IngressMetrics;
}): Stage {
  return async function admitRequest(ctx, next) {
    await traced(ctx.state.span, { name: 'admission' }, (span) => admit(ctx, span));
    await next();
  };

  /** A separate function, because a waiting stage keeps its local variables in memory, and the payload would be one of them. */
  async function admit(ctx: AppContext, span: Span | undefined): Promise<void> {
    const call = stateOf(ctx, 'call');
    const planFile = stateOf(ctx, 'planFile');
    const { fairShare, refusal } = ctx.state;
    const request = beginCallerCheck(ctx);
    // A repeat needs no room in the queue. What the key may do is decided before that.
    const checked = await checkCaller.admit(request, (caller) => {
      const outside = refuseOutsideKey(caller.keyScope, call);
      if (outside !== undefined) return { refusal: outside };
      return refusal === undefined ? askFor(call, caller, { planFile, fairShare }) : { refusal };
    });
    const allowance = allowanceOf(checked.caller, planFile);
    ctx.state.caller = checked.caller;
    const keyLimits = checked.caller.keyScope?.limits;
    setHeaders(ctx.res, limitHeaders(checked.counters, allowance, keyLimits));
    const limit = 'limit' in checked ? checked.limit : 'none';
    metrics.admissions.inc({ endpoint: call.endpoint, outcome: checked.outcome, limit });
    span?.set({ 'svc.outcome': checked.outcome, 'svc.limit': limit });
    if (checked.outcome === 'refused') throw checked.error;
    if (checked.outcome === 'repeated') {
      if (checked.how !== 'kept') throw repeatRefused(checked.how);
      ctx.state.repeated = { first: checked.first };
      return;
    }
    if (checked.outcome === 'limited') throw limitError({ ...checked, allowance, keyLimits, fairShare, topupUrl });
    const { caller, admission, charge, inFlight, bytesReserved } = checked;
    const { lastMinute } = checked.counters;
    limitPeaks.note(caller.account, { ...lastMinute, atOnce: inFlight });
    const { requestId } = request;
    const { promptTokens } = call.cost;
    const { claim } = request;
    ctx.state.lease = {
      account: caller.account,
      requestId,
      report: charge.report,
      promptTokens,
      admission,
      ...(claim && { claim: holdClaim(claim, { bytesReserved, endpoint: call.endpoint }) }),
      ...(ctx.state.span && { span: ctx.state.span }),
    };
    ctx.state.inFlight = inFlight;
  }

  function holdClaim(
    claim: Claim,
    { bytesReserved, endpoint }: { bytesReserved: number; endpoint: string },
  ): HeldClaim {
    if (bytesReserved > claimBytes) return { ...claim, answerBytesMax: bytesReserved };
    metrics.answersNotKept.inc({ endpoint, reason: claim.isStream ? 'stream' : 'no_room' });
    return { ...claim, answerBytesMax: 0 };
  }

  function askFor(call: Call, caller: Caller, { planFile, fairShare }: Bounds): ReturnType<DecideCharge> {
    const { plan, keyId = '', keyScope } = caller;
    const limits = planFile.plans[plan];
    if (!limits?.modelTiers.includes(call.tier)) return { refusal: planLimit(call.requestedModel ?? call.model, plan) };
    const refusal =
      refuseLargerThanLimit(call.cost, limits.tokensPerMinute) ??
      refuseLargerThanLimit(call.cost, keyScope?.limits?.tokensPerMinute, 'this API key');
    if (refusal !== undefined) return { refusal };
    const report = lostReport({ ...call, keyId, plan, batch: null });
    const allowance = withShare(allowanceOf(caller, planFile), fairShare);
    const times = { timeouts: planFile.timeouts, queueMs: queueMsOf(planFile, call.model) };
    return { charge: { allowance, reservedTokens: call.cost.reservedTokens, report, ...times } };
  }
}

/**
 * Refuses a request if the queue has no room, or if its reply could not be received, before any call of Redis and before any charge. A
 * request that passes keeps its place while its stages run, or longer if one of them takes over the place.
 */
export function refuseFullQueue({
  queueBounds,
  metrics,
  replyTo,
  random = Math.random,
}: {
  queueBounds: Pick<QueueBounds, 'enter'>;
  metrics: Pick<IngressMetrics, 'queueRefusals'>;
  /** This ingress's reply stream, undefined while it has none. */
  replyTo: () => string | undefined;
  random?: () => number;
}): Stage {
  return async function refuseFullQueue(ctx, next) {
    const place = enterUnlessRepeat(ctx);
    if (place === undefined) return next();
    let isTakenOver = false;
    ctx.state.place = {
      takeOver() {
        isTakenOver = true;
        return place;
      },
    };
    try {
      await next();
    } finally {
      if (!isTakenOver) place.leave();
    }
  };

  /** A request with an idempotency key may be a repeat, which needs no room. Admission decides. */
  function enterUnlessRepeat(ctx: AppContext): QueuePlace | undefined {
    try {
      return enterQueue(ctx);
    } catch (error) {
      if (ctx.state.claim === undefined) throw error;
      ctx.state.refusal = toApiError(error);
      return undefined;
    }
  }

  /** A separate function, because a waiting stage keeps its local variables in memory, and the payload would be one of them. */
  function enterQueue(ctx: AppContext): QueuePlace {
    const { pool, model, endpoint, payload } = stateOf(ctx, 'call');
    // An unknown account may not exist; admission answers that.
    const { caller = { account: '', plan: '' } } = ctx.state;
    if (replyTo() === undefined) throw temporarilyUnavailable(new Error('no reply could be received'));
    const entry = queueBounds.enter({
      model,
      account: caller.account,
      holder: holderOf(caller),
      bytes: Buffer.byteLength(payload),
    });
    if ('full' in entry) {
      metrics.queueRefusals.inc({ pool, model, endpoint, reason: entry.full });
      throw overloadError('its queue is full', random);
    }
    ctx.state.fairShare = entry.requestsAtOnceMax;
    return entry.place;
  }
}
