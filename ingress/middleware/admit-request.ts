import type { ChatCall } from '../../shared/chat-call/chat-call.ts';
import { refuseLargerThanLimit } from '../../shared/chat-call/request-cost.ts';
import { planLimit } from '../../shared/errors.ts';
import type { Allowance } from '../../shared/limits/admit.ts';
import { allowanceOf } from '../../shared/limits/allowance.ts';
import { lostReport } from '../../shared/limits/lost-report.ts';
import type { PlanFile } from '../../shared/process/plan-file.ts';
import { setHeaders } from '../api/set-headers.ts';
import type { Ask, CheckCaller, Checked } from '../callers/check-caller.ts';
import { limitError, withShare } from '../limits/limit-error.ts';
import { limitHeaders } from '../limits/limit-headers.ts';
import type { IngressMetrics } from '../metrics.ts';
import { type AppContext, type Stage, stateOf } from '../request-state.ts';

/**
 * The one stage between a caller and the queue: the request's caller is the present one and has
 * its model in the plan, it passes no limit, and it gets its lease and its times by Redis's clock. A model outside the plan is
 * 429 `plan_limit`, a request that no waiting would let pass a 400.
 */
export function admitRequest({
  checkCaller,
  planFile,
  topupUrl,
  metrics,
}: {
  checkCaller: CheckCaller;
  planFile: PlanFile;
  topupUrl: string;
  metrics: IngressMetrics;
}): Stage {
  return async function admitRequest(ctx, next) {
    const { admission, inFlight } = await admit(ctx);
    Object.assign(ctx.state, { admission, inFlight });
    await next();
  };

  /** A function of its own: a stage that waits keeps its local variables, and the body would be one of them. */
  async function admit(ctx: AppContext): Promise<Extract<Checked, { outcome: 'admitted' }>> {
    const call = stateOf(ctx, 'call');
    const { requestId, caller } = ctx.state;
    ctx.state.checked = true;
    const request = { requestId, credential: stateOf(ctx, 'credential'), caller };
    const { fairShare } = ctx.state;
    const checked = await checkCaller.admit(request, askFor(call, fairShare));
    const allowance = allowanceOf(checked.caller, planFile);
    tell(ctx, checked, allowance);
    if (checked.outcome === 'refused') throw checked.error;
    if (checked.outcome === 'limited') throw limitError({ ...checked, allowance, fairShare, topupUrl });
    return checked;
  }

  function askFor(call: ChatCall, fairShare: number | undefined): Ask {
    return {
      refuse({ plan }) {
        const limits = planFile.plans[plan];
        if (!limits?.modelTiers.includes(call.tier)) return planLimit(call.model, plan);
        return refuseLargerThanLimit(call.cost, limits.tokensPerMinute);
      },
      charge: (caller) => ({
        allowance: withShare(allowanceOf(caller, planFile), fairShare),
        tokens: call.cost.tokens,
        report: JSON.stringify(lostReport({ ...call, keyId: caller.keyId ?? '', plan: caller.plan, batch: null })),
      }),
    };
  }

  function tell(ctx: AppContext, checked: Checked, allowance: Allowance): void {
    ctx.state.caller = checked.caller;
    setHeaders(ctx.res, limitHeaders(checked.counters, allowance));
    metrics.admissions.inc({ outcome: checked.outcome, limit: 'limit' in checked ? checked.limit : 'none' });
  }
}
