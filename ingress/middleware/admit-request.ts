import { planLimit, validationError } from '../../shared/errors.ts';
import type { Admit } from '../../shared/limits/admit.ts';
import type { PlanFile } from '../../shared/plan-file.ts';
import { parseChatCall } from '../chat-call.ts';
import { type Stage, stateOf } from '../request-state.ts';

/**
 * The one stage between a caller and the queue: the request is one that can be run, its model is in the caller's plan, and
 * it gets its times by Redis's clock. An unknown model is a 400 (API D3), one outside the plan 429 `plan_limit`.
 */
export function admitRequest({ admit, planFile }: { admit: Admit; planFile: PlanFile }): Stage {
  return async function admitRequest(ctx, next) {
    const { account, plan } = stateOf(ctx, 'caller');
    const call = parseChatCall(stateOf(ctx, 'body'));
    const model = planFile.models[call.model];
    if (model === undefined) throw validationError([{ path: 'model', message: 'there is no such model' }]);
    if (!planFile.plans[plan]?.modelTiers.includes(model.tier)) throw planLimit(call.model, plan);
    ctx.state.call = call;
    // From here on the request is held as it will be queued, and not three times over.
    delete ctx.state.body;
    ctx.state.admission = await admit({ account, requestId: ctx.state.requestId });
    await next();
  };
}
