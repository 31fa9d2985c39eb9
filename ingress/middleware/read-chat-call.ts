import { parseChatCall } from '../../shared/chat-call/chat-call.ts';
import type { PlanFile } from '../../shared/plan-file.ts';
import { type Stage, stateOf } from '../request-state.ts';

/** The body is a chat completion that can be run, or a 400 that names what is wrong; an unknown model is one (API D3). */
export function readChatCall({ planFile }: { planFile: PlanFile }): Stage {
  return async function readChatCall(ctx, next) {
    ctx.state.call = parseChatCall(stateOf(ctx, 'body'), planFile.models);
    // From here on the request is held as it will be queued, and not three times over.
    delete ctx.state.body;
    await next();
  };
}
