import { parseChatCall } from '../../shared/chat-call/chat-call.ts';
import { createListedFields } from '../../shared/chat-call/listed-fields.ts';
import { countRefusedFields } from '../../shared/process/metrics.ts';
import type { PlanFile } from '../../shared/process/plan-file.ts';
import { noSuchModel } from '../api/no-such-model.ts';
import type { IngressMetrics } from '../metrics.ts';
import { type Stage, stateOf } from '../request-state.ts';

/**
 * The body is a chat completion that can be run, or a 400 that names what is wrong: an unknown model, or a field that
 * the plan file does not list.
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
    // From here on the request is held as it will be queued, and not three times over.
    delete ctx.state.body;
    return next();
  };
}
