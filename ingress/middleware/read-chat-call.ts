import { parseChatCall } from '../../shared/chat-call/chat-call.ts';
import { createListedFields } from '../../shared/chat-call/listed-fields.ts';
import { countRefusedFields } from '../../shared/process/metrics.ts';
import type { PlanFile } from '../../shared/process/plan-file.ts';
import { noSuchModel } from '../api/no-such-model.ts';
import type { IngressMetrics } from '../metrics.ts';
import { type Stage, stateOf } from '../request-state.ts';

/**
 * Parses the body as a chat completion. Fails with 400 for an invalid field, an unknown model, or a field that the plan file does not list
 * (contract.md#d3-unknown-model).
 */
export function readChatCall({
  planFile,
  metrics,
}: {
  planFile: PlanFile;
  metrics: Pick<IngressMetrics, 'refusedFields'>;
}): Stage {
  const listedFields = createListedFields(planFile);

  return function readChatCall(ctx, next) {
    const { plan } = stateOf(ctx, 'caller');
    const noSuch = (name: string) => noSuchModel(name, plan, planFile);
    try {
      ctx.state.call = parseChatCall(stateOf(ctx, 'body'), planFile.models, {
        rule: listedFields,
        noSuchModel: noSuch,
      });
    } catch (error) {
      countRefusedFields(metrics, error);
      throw error;
    }
    // From now on memory holds the request only as it will be queued, not also its text and its parsed body.
    delete ctx.state.body;
    return next();
  };
}
