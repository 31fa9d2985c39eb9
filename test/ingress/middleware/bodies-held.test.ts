import test from 'ava';
import Koa from 'koa';
import type { CheckCaller } from '../../../ingress/authentication/check-caller.ts';
import { createBodyBudget, createLargeBodies, createRefusedBodies } from '../../../ingress/listener/body-budget.ts';
import type { IngressMetrics } from '../../../ingress/metrics.ts';
import { admitRequest, refuseFullQueue } from '../../../ingress/middleware/admit-request.ts';
import { readCalls } from '../../../ingress/middleware/read-call.ts';
import { readJsonBody } from '../../../ingress/middleware/read-json-body.ts';
import { createQueueBounds } from '../../../ingress/queue/queue-bounds.ts';
import { createQueueTurns } from '../../../ingress/queue/queue-turns.ts';
import { answerCall } from '../../../ingress/replies/answer-call.ts';
import { type RequestState, stateOf } from '../../../ingress/request-state.ts';
import { createAffinityKeys } from '../../../shared/endpoints/affinity-keys.ts';
import { chat } from '../../../shared/endpoints/chat/chat.ts';
import type { LimitCounters } from '../../../shared/limits/admission.ts';
import { parsePlanFile } from '../../../shared/plan-file/plan-file.ts';
import type { Caller } from '../../../shared/store/records/account.ts';
import { untilCollected } from '../../support/collect-garbage.ts';
import { planText } from '../../support/plan-text.ts';
import { serveApp } from '../../support/serve-app.ts';

/** With two backends on-prem, so that requests have affinity keys. */
const parsed = parsePlanFile(
  planText(({ models, backends }) => {
    Object.assign(backends, { 'onprem-b': { ...backends['onprem-a'], url: 'http://127.0.0.1:8085/v1' } });
    models['small-chat'].backends.push('onprem-b');
  }),
);
if ('issues' in parsed) throw new Error('the plan file of the tests is wrong');
const { planFile } = parsed;
const alice: Caller = {
  ...{ account: 'user:alice', keyId: 'key_1', plan: 'free' },
  ...{ suspended: false, version: 1, overageEnabled: false },
};
const counters: LimitCounters = {
  ...{ now: 1, month: '2030-05', chargedTokens: 0, reservedTokens: 0, overageTokens: 0 },
  ...{ lastMinute: { requests: 0, tokens: 0, resetMs: 0 }, dayRequests: 0, isCountOld: false },
};
const counter = { inc() {} };
const metrics = {
  ...{ queueRefusals: counter, bodyRefusals: counter, refusedFields: counter },
  ...{ admissions: counter },
} as unknown as IngressMetrics; // counts nothing
const checkCaller = {
  async admit(_request, ask) {
    const asked = ask(alice);
    if (!('charge' in asked)) throw asked.refusal;
    const admission = { admittedAt: 1, startBy: 2, deadline: 3, overage: false };
    return { outcome: 'admitted', caller: alice, counters, admission, charge: asked.charge, inFlight: 1 };
  },
} as CheckCaller; // a route that admits uses nothing else of it

test('while a request waits for its answer no stage holds its body, parsed or serialized', async (t) => {
  const parts = { metrics, checkCaller, topupUrl: '' };
  const queueBounds = createQueueBounds({
    models: () => Object.keys(planFile.models),
    depthMax: 10,
    bytesMax: 1_048_576,
  });
  const reading = { bodyBytesMax: 10_000, bodyMs: 60_000, giveUp: new AbortController().signal };
  const arrived = Promise.withResolvers<[value: WeakRef<object>, queued: WeakRef<object>]>();
  const answered = Promise.withResolvers<void>();
  let parsedBody: WeakRef<object> | undefined;

  const app = new Koa<RequestState>();
  app.use((ctx, next) => {
    Object.assign(ctx.state, {
      planFile,
      requestId: 'req_1',
      address: '192.0.2.1',
      caller: alice,
      credential: { hashes: ['hash'] },
    });
    return next();
  });
  const bounds = {
    budget: createBodyBudget({ bytesMax: 1_048_576 }),
    refusedBodies: createRefusedBodies(),
    largeBodies: createLargeBodies({ bytesAtOnceMax: 1_048_576 }),
  };
  app.use(readJsonBody({ ...reading, ...bounds, metrics }));
  app.use((ctx, next) => {
    parsedBody = new WeakRef(stateOf(ctx, 'body').value);
    return next();
  });
  app.use(readCalls({ ...parts, affinityKeys: createAffinityKeys('pepper') })(chat));
  app.use((ctx, next) => {
    // A string cannot be weakly referenced, so bytes with the same length stand in for the text of the body.
    Object.assign(stateOf(ctx, 'call'), { payload: Buffer.from(stateOf(ctx, 'call').payload) });
    return next();
  });
  app.use(refuseFullQueue({ ...parts, queueBounds, replyTo: () => 'svc:replies:1' }));
  app.use(admitRequest({ ...parts, limitPeaks: { note() {} } }));
  const expected: object[] = [];
  const reply = {
    ended: answered.promise,
    abandon() {},
    async next() {
      await answered.promise;
      return { kind: 'end', body: '{}', usage: { promptTokens: 1, completionTokens: 1 } };
    },
  };
  const queueing = {
    replyTo: () => 'svc:replies:1',
    queueTurns: createQueueTurns(),
    queues: {
      async add({ payload }: { payload: unknown }) {
        if (parsedBody !== undefined) arrived.resolve([parsedBody, new WeakRef(payload as Buffer)]); // replaced above
      },
    },
    waitingRequests: {
      expect(request: object) {
        expected.push(request);
        return reply;
      },
    },
    suspensions: { follow: () => () => {} },
    requestsToEnd: { follow: () => () => {} },
  };
  app.use((ctx) => answerCall(ctx, queueing as unknown as Parameters<typeof answerCall>[1])); // all that it uses
  const { url, ...served } = await serveApp(app);
  t.teardown(() => {
    answered.resolve();
    served[Symbol.dispose]();
  });
  const answer = fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json', connection: 'close' },
    body: JSON.stringify({ model: 'small-chat', messages: [{ role: 'user', content: 'Hello' }] }),
  });
  const [value, queued] = await arrived.promise;
  t.true(await untilCollected(value), 'parsed');
  t.true(await untilCollected(queued), 'as it is queued');
  t.is(expected.length, 1, 'what waits for the reply is kept');
  answered.resolve();
  t.is((await answer).status, 200);
});
