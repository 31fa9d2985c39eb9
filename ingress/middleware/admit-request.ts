import { type ApiError, planLimit, validationError } from '../../shared/errors.ts';
import type { PlanFile } from '../../shared/plan-file.ts';
import { parseChatCall } from '../chat-call.ts';
import type { CheckCaller } from '../check-caller.ts';
import { type Stage, stateOf } from '../request-state.ts';
import type { Caller } from '../shared-callers.ts';

/**
 * The one stage between a caller and the queue: the request is one that can be run, its caller is the present one and has
 * its model in the plan, and it gets its times by Redis's clock. An unknown model is a 400 (API D3), one outside the plan
 * 429 `plan_limit`.
 */
export function admitRequest({ checkCaller, planFile }: { checkCaller: CheckCaller; planFile: PlanFile }): Stage {
  return async function admitRequest(ctx, next) {
    const call = parseChatCall(stateOf(ctx, 'body'));
    const model = planFile.models[call.model];
    if (model === undefined) throw validationError([{ path: 'model', message: 'there is no such model' }]);
    ctx.state.call = call;
    // From here on the request is held as it will be queued, and not three times over.
    delete ctx.state.body;

    const refuse = ({ plan }: Caller): ApiError | undefined =>
      planFile.plans[plan]?.modelTiers.includes(model.tier) ? undefined : planLimit(call.model, plan);
    const request = {
      requestId: ctx.state.requestId,
      credential: stateOf(ctx, 'credential'),
      caller: ctx.state.caller,
    };
    ctx.state.checked = true;
    const { caller, admission } = await checkCaller.admit(request, refuse);
    ctx.state.caller = caller;
    ctx.state.admission = admission;
    await next();
  };
}
