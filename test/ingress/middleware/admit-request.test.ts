import test from 'ava';
import type { CheckCaller, DecideCharge } from '../../../ingress/authentication/check-caller.ts';
import type { IngressMetrics } from '../../../ingress/metrics.ts';
import { admitRequest } from '../../../ingress/middleware/admit-request.ts';
import type { AppContext } from '../../../ingress/request-state.ts';
import { ApiError } from '../../../shared/errors.ts';
import type { PlanFile } from '../../../shared/plan-file/plan-file.ts';
import type { Caller } from '../../../shared/store/records/account.ts';

const caller: Caller = {
  ...{ account: 'user:ann', keyId: 'key_1', plan: 'free', suspended: false, version: 1, overageEnabled: false },
  keyScope: { models: ['small-chat'], limits: { tokensPerMinute: 50 } },
};
const timeouts = { queueMs: 1_000, requestMs: 2_000 };
const planFile = {
  plans: { free: { modelTiers: ['guest'], tokensPerMinute: 100 } },
  models: { 'small-chat': { queueMs: 60_000 } },
  timeouts,
} as unknown as PlanFile;
const cost = { promptTokens: 5, outputTokensMax: 10, choices: 1 };
const fields = { promptField: 'messages', limitField: 'max_tokens', choicesField: 'n' };

type Given = { model?: string; tier?: string; tokens?: number; refusal?: ApiError };

/** What the stage asks the admission for this request. */
async function askedFor({ model = 'small-chat', tier = 'guest', tokens = 15, refusal }: Given) {
  const asked: ReturnType<DecideCharge>[] = [];
  const checkCaller = {
    admit: async (_request: unknown, ask: DecideCharge) => {
      asked.push(ask(caller));
      throw new Error('asked');
    },
  } as unknown as CheckCaller;
  const call = { model, tier, endpoint: '/v1/chat/completions', cost: { ...cost, ...fields, reservedTokens: tokens } };
  const state = { planFile, requestId: 'req_1', address: '192.0.2.1', credential: { hashes: ['hash'] }, call, refusal };
  const ctx = { state } as unknown as AppContext; // the stage uses nothing else before its answer
  const stage = admitRequest({ checkCaller, topupUrl: '', limitPeaks: { note() {} }, metrics: {} as IngressMetrics });
  await stage(ctx, async () => {}).catch(() => undefined);
  return asked[0];
}

test('a request within its plan and its key is charged, with the time limits of its plan file and its model', async (t) => {
  t.like(await askedFor({}), { charge: { reservedTokens: 15, report: { keyId: 'key_1' }, timeouts, queueMs: 60_000 } });
});

test('what a key may do is decided first, also for a request that may be a repeat and finds a full queue', async (t) => {
  const refusal = new ApiError('SERVICE_UNAVAILABLE', 'The queue is full.');
  for (const given of [{}, { refusal }, { tier: 'premium' }, { tokens: 1_000 }]) {
    t.like(await askedFor({ ...given, model: 'large-chat' }), { refusal: { code: 'FORBIDDEN' } });
  }
  t.deepEqual(await askedFor({ refusal }), { refusal });
});

test('a request that the plan or the key never admits is refused by name', async (t) => {
  t.like(await askedFor({ tier: 'premium' }), { refusal: { code: 'rate_limit_exceeded' } });
  for (const [tokens, whose] of [
    [101, /of the plan/],
    [51, /of this API key/],
  ] as const) {
    const asked = await askedFor({ tokens });
    t.regex(asked !== undefined && 'refusal' in asked ? asked.refusal.message : '', whose);
  }
});
