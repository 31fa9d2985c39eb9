import test, { type ExecutionContext } from 'ava';
import { type Stack, startStack } from '../stack/stack.ts';
import { createKeyClient, type KeyClient } from '../support/key-client.ts';

const tiers = { model_tiers: ['guest', 'standard'] };
const plans = {
  'two-a-minute': { requests_per_minute: 2, ...tiers },
  'few-tokens': { tokens_per_minute: 300, ...tiers },
  'small-month': { requests_per_minute: 100, tokens_per_minute: 100_000, tokens_per_month: 5_000, ...tiers },
};

let stack: Stack;
let keys: KeyClient;
const parts = new AsyncDisposableStack();

test.before(async () => {
  stack = parts.use(await startStack({ ingresses: 2, plans }));
  keys = createKeyClient(stack);
});

test.after.always(() => parts.disposeAsync());

const body = { model: 'small-chat', messages: [{ role: 'user', content: 'Hello' }], max_tokens: 50 };

/** An account on this plan, whose requests alternate between the two ingresses. */
async function openAccount(name: string, plan: keyof typeof plans) {
  const key = await keys.newKey(name);
  await keys.change(`user:${name}`, { plan });
  let requests = 0;
  const url = () => stack.ingresses[requests++ % 2]?.url ?? '';
  const client = createKeyClient(stack, { url });
  return {
    key,
    chat: (more: object = {}, headers = {}) =>
      client.send('POST', '/v1/chat/completions', { bearer: key, body: { ...body, ...more }, headers }),
    quota: () => client.send('GET', '/billing/quota', { bearer: key }),
  };
}

type Answered = Awaited<ReturnType<KeyClient['send']>>;

function assertBurst(t: ExecutionContext, answer: Answered, type: string): number {
  t.is(answer.status, 429, JSON.stringify(answer.body));
  const { error } = answer.body as { error: Record<string, unknown> }; // a response of the service itself
  t.deepEqual(Object.keys(error).sort(), ['code', 'docs', 'message', 'param', 'retry_after_ms', 'type']);
  t.like(error, { code: 'rate_limit_exceeded', type, docs: `${stack.baseUrl}/docs/errors#rate_limit_exceeded` });
  const waitMs = Number(error.retry_after_ms);
  t.is(answer.headers.get('retry-after-ms'), String(waitMs));
  t.is(answer.headers.get('retry-after'), String(Math.max(1, Math.ceil(waitMs / 1_000))));
  return waitMs;
}

const limitNames = ['limit-requests', 'remaining-requests', 'limit-tokens', 'remaining-tokens'];
const rates = ({ headers }: Answered) => limitNames.map((name) => headers.get(`x-ratelimit-${name}`));
const quotaNames = ['limit', 'used', 'remaining', 'reset', 'overage'];
const quotas = ({ headers }: Answered) => quotaNames.map((name) => headers.get(`x-svc-quota-${name}`));

test('on a plan of two requests a minute the third is refused at either ingress, with its wait', async (t) => {
  const { chat } = await openAccount('minute', 'two-a-minute');
  for (const remaining of ['1', '0']) {
    const answer = await chat();
    t.is(answer.status, 200);
    t.deepEqual(rates(answer), ['2', remaining, 'unlimited', 'unlimited']);
    t.regex(answer.headers.get('x-ratelimit-reset-requests') ?? '', /^(1m0s|\d+(\.\d+)?s)$/);
    t.is(answer.headers.get('x-ratelimit-reset-tokens'), '0ms');
  }
  const refused = await chat();
  const waitMs = assertBurst(t, refused, 'requests_limit');
  t.true(waitMs > 50_000 && waitMs <= 60_000);
  t.is(refused.headers.get('x-should-retry'), null);
  t.deepEqual(rates(refused), ['2', '0', 'unlimited', 'unlimited']);
});

test('a request larger than its limit gets 400 with the maximum that would pass', async (t) => {
  const { chat } = await openAccount('large', 'few-tokens');
  const output = await chat({ max_tokens: 4_000 });
  t.is(output.status, 400);
  const most = /^max_tokens: expected at most (\d+)/.exec(String(output.body.error))?.[1];
  t.is((await chat({ max_tokens: Number(most) })).status, 200, `at most ${most}`);
  const prompt = await chat({ messages: [{ role: 'user', content: 'word '.repeat(1_000) }] });
  t.like(prompt, { status: 400, body: { code: 'VALIDATION_ERROR' } });
  t.regex(String(prompt.body.error), /^messages: /);
});

test('a used-up month gets 402 until it is topped up or overage is on, and the quota reports it', async (t) => {
  const { chat, quota } = await openAccount('month', 'small-month');
  const reset = nextMonth();
  const empty = await quota();
  t.deepEqual(empty.body, {
    plan: 'small-month',
    unit: 'tokens',
    period: { start: `${new Date().toISOString().slice(0, 7)}-01`, end: reset },
    limit: 5_000,
    used: 0,
    reserved: 0,
    remaining: 5_000,
    topUp: 0,
    overageUsed: 0,
    overageLimit: null,
    overageTokensMax: null,
    overageEnabled: false,
    resetDate: reset,
    topupUrl: `${stack.baseUrl}/console#top-up`,
  });
  let used = 0;
  for (let answer = await chat({ n: 20 }); answer.status === 200; answer = await chat({ n: 20 })) {
    const [limit, before, , resetDate, overage] = quotas(answer);
    t.deepEqual([limit, before, resetDate, overage], ['5000', String(used), reset, 'off']);
    used += (answer.body.usage as { total_tokens: number }).total_tokens; // a response of the test model server
  }
  t.true(used >= 5_000);
  const spent = await chat();
  t.is(spent.status, 402);
  t.is(spent.headers.get('x-should-retry'), 'false');
  t.is(spent.headers.get('retry-after'), null);
  t.deepEqual(quotas(spent), ['5000', String(used), '0', reset, 'off']);
  const { error } = spent.body as { error: Record<string, unknown> }; // a response of the service itself
  t.like(error, { code: 'quota_exceeded', type: 'quota_limit', param: null, resetDate: reset, overageEnabled: false });
  t.is(error.topupUrl, `${stack.baseUrl}/console#top-up`);
  t.true(String(error.message).includes(reset));

  await keys.change('user:month', { topUp: { id: 'one', tokens: 10_000 } });
  await keys.change('user:month', { topUp: { id: 'one', tokens: 10_000 } });
  const topped = await chat();
  t.is(topped.status, 200, 'applies to the next request');
  used += (topped.body.usage as { total_tokens: number }).total_tokens; // a response of the test model server
  t.like((await quota()).body, { limit: 15_000, topUp: 10_000, used, remaining: 15_000 - used });

  await keys.change('user:month', { plan: 'two-a-minute' });
  t.like((await quota()).body, { plan: 'two-a-minute', limit: null, remaining: null, used, topUp: 10_000 });
  await keys.change('user:month', { plan: 'small-month' });

  for (let left = 15_000 - used; left > 0; left = 15_000 - used) {
    used += ((await chat({ n: 40 })).body.usage as { total_tokens: number }).total_tokens; // a response of the test model server
  }
  t.is((await chat()).status, 402);
  await keys.change('user:month', { overageEnabled: true });
  const over = await chat();
  t.is(over.status, 200);
  t.is(over.headers.get('x-svc-quota-overage'), 'on');
  const overageUsed = (over.body.usage as { total_tokens: number }).total_tokens; // a response of the test model server
  t.like((await quota()).body, { used: used + overageUsed, overageUsed, overageEnabled: true, remaining: 0 });
  const setOverage = (body: object) => keys.signedIn('month', 'PATCH', '/billing/overage', body);
  const bounded = await setOverage({ enabled: true, tokens_max: overageUsed });
  t.like(bounded.body, { overageEnabled: true, overageLimit: overageUsed, overageTokensMax: overageUsed });
  const beyond = await chat();
  t.is(beyond.status, 402, 'the bound of the account itself is reached, on its next request');
  t.regex(JSON.stringify(beyond.body), /and so are [\d,]+ tokens of overage/);
  t.like((await setOverage({ enabled: true, tokens_max: null })).body, { overageLimit: null, overageTokensMax: null });
  t.is((await chat()).status, 200);
  await keys.change('user:month', { overageEnabled: false });
  t.is((await chat()).status, 402);
});

test('every answer to an inference request of a known caller has the quota and rate-limit headers of its account', async (t) => {
  const { key, chat } = await openAccount('headers', 'small-month');
  const malformed = (text: string, headers = {}) =>
    keys.send('POST', '/v1/chat/completions', { bearer: key, body: text, headers });
  const answers = [
    [200, await chat()],
    [400, await chat({ max_tokens: 'many' })],
    [400, await chat({ model: 'nothing' })],
    [400, await malformed('{')],
    [413, await malformed('x'.repeat(17_000_000))],
    [415, await malformed('x', { 'content-type': 'text/plain' })],
    [429, await chat({ model: 'large-chat' })],
  ] as const;
  for (const [status, answer] of answers) {
    t.is(answer.status, status, JSON.stringify(answer.body));
    for (const value of [...quotas(answer), ...rates(answer)]) t.not(value, null, String(status));
  }
  await keys.change('user:headers', { suspended: true });
  const suspended = await chat();
  t.is(suspended.status, 403);
  t.is(quotas(suspended)[0], '5000');
  const unknown = await keys.send('POST', '/v1/chat/completions', { bearer: 'svc_unknown', body });
  t.deepEqual(quotas(unknown), [null, null, null, null, null]);
});

test('an unlimited plan reports no numbers, but usage is counted', async (t) => {
  const key = await keys.newKey('unlimited');
  await keys.change('user:unlimited', { plan: 'pro' });
  const answer = await keys.send('POST', '/v1/chat/completions', { bearer: key, body });
  t.deepEqual(rates(answer), ['unlimited', 'unlimited', 'unlimited', 'unlimited']);
  t.deepEqual(quotas(answer).slice(0, 3), ['unlimited', '0', 'unlimited']);
  const { total_tokens: used } = answer.body.usage as { total_tokens: number }; // a response of the test model server
  t.like((await keys.send('GET', '/billing/quota', { bearer: key })).body, { limit: null, remaining: null, used });
});

test('while too much usage waits for the store, requests are refused with the quota headers of their account', async (t) => {
  const { key, chat } = await openAccount('waiting', 'small-month');
  const { url } = await stack.startIngress({ OUTBOX_LENGTH_MAX: '1' });
  t.is((await chat()).status, 200);
  const full = createKeyClient(stack, { url: () => url });
  const refused = await full.send('POST', '/v1/chat/completions', { bearer: key, body });
  t.like(refused, { status: 503, body: { code: 'SERVICE_UNAVAILABLE' } });
  t.is(refused.headers.get('retry-after'), '1');
  t.is(quotas(refused)[0], '5000');
  stack.ingresses.pop();
  t.is((await chat()).status, 200, 'the others have room for more');
});

test('the limits in use are those that admission counts', async (t) => {
  const { key, chat } = await openAccount('in-use', 'two-a-minute');
  const inUse = async () => (await keys.send('GET', '/billing/limits', { bearer: key })).body;
  t.like(await inUse(), {
    plan: 'two-a-minute',
    requestsPerMinute: { limit: 2, used: 0 },
    requestsPerDay: { limit: null, used: 0 },
    requestsAtOnce: { used: 0 },
    batchRequestsAtOnce: { used: 0 },
  });
  const { usage } = (await chat()).body as { usage: { total_tokens: number } }; // a response of the test model server
  const after = await inUse();
  t.like(after, { requestsPerMinute: { limit: 2, used: 1 }, requestsPerDay: { used: 1 }, requestsAtOnce: { used: 0 } });
  t.like(after, { tokensPerMinute: { used: usage.total_tokens } });
  t.like(after, { requestsPerMinute: { highest: 1 }, requestsAtOnce: { highest: 1 } });
  const { resetMs } = after.requestsPerMinute as { resetMs: number };
  t.true(resetMs > 0 && resetMs <= 65_000, String(resetMs));
});

test('rotating a key resets no limit', async (t) => {
  const { key, chat } = await openAccount('rotating', 'two-a-minute');
  for (const _ of [1, 2]) t.is((await chat()).status, 200);
  const { body: rotated } = await keys.rotate('rotating', key);
  const answer = await keys.send('POST', '/v1/chat/completions', { bearer: String(rotated.key), body });
  assertBurst(t, answer, 'requests_limit');
});

test('a guest device has the limits that its key reports', async (t) => {
  const { body: guest } = await keys.guest('device-of-greta');
  t.is(guest.rate_limit_per_day, 50);
  const answer = await keys.send('POST', '/v1/chat/completions', { bearer: String(guest.key), body });
  t.deepEqual(rates(answer).slice(0, 3), ['5', '4', '20000']);
  t.is(quotas(answer)[0], '200000');
});

function nextMonth(): string {
  const now = new Date();
  return new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + 1)).toISOString().slice(0, 10);
}
