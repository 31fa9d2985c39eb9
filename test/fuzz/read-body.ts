import { createBodyBudget } from '../../ingress/listener/body-budget.ts';
import { readCalls } from '../../ingress/middleware/read-call.ts';
import { readJsonBody } from '../../ingress/middleware/read-json-body.ts';
import { createAffinityKeys } from '../../shared/endpoints/affinity-keys.ts';
import type { Call } from '../../shared/endpoints/definition/read-call.ts';
import { endpointAt } from '../../shared/endpoints/endpoints.ts';
import type { PlanFile } from '../../shared/plan-file/plan-file.ts';
import { declaredError } from './declared-error.ts';
import { fakeContext, inPieces } from './fake-request.ts';
import { require } from './search/fuzz-target.ts';

const counter = { inc() {} } as never; // nothing reads it
const bodyBytesMax = 60_000;
const caller = { account: 'user:alice', plan: 'free', suspended: false, version: 0, overageEnabled: false };
const sent = { 'content-type': 'application/json' };

/** Reads bodies as the route of this path does. Resolves with the call and the text of the body, or with the code of a declared error. */
export function createReadCall(path: string, planFile: PlanFile) {
  const budget = createBodyBudget({ bytesMax: 1_000_000 });
  const readBody = readJsonBody({
    ...{ bodyBytesMax, bodyMs: 60_000, budget },
    giveUp: new AbortController().signal,
    refusedBodies: { mustWait: () => false, turn: async () => {}, add: () => {} },
    largeBodies: { time: async () => () => {}, timeNow: () => () => {}, place: async () => () => {} },
    metrics: { bodyRefusals: counter },
  });
  const readCall = readCalls({ metrics: { refusedFields: counter }, affinityKeys: createAffinityKeys('pepper') })(
    endpointAt(path),
  );

  return async (input: Buffer): Promise<{ call: Call; text: string } | string> => {
    const ctx = fakeContext(sent, inPieces(input), { planFile, requestId: 'req_1', address: '192.0.2.1', caller });
    let text = '';
    try {
      await readBody(ctx, async () => {
        text = ctx.state.body?.text ?? '';
        await readCall(ctx, async () => {});
      });
    } catch (error) {
      return declaredError(error, ['VALIDATION_ERROR', 'PAYLOAD_TOO_LARGE']);
    } finally {
      require(budget.bytesHeld() === 0, 'its bytes are still counted as held');
    }
    const { call } = ctx.state;
    require(call !== undefined, 'a body that was accepted has no call');
    return { call, text };
  };
}
