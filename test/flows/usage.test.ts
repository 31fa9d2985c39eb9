import { createHash } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import test from 'ava';
import OpenAI from 'openai';
import type { z } from 'zod';
import { accountListSchema } from '../../ingress/routes/accounts.ts';
import { planLimitsSchema, planListSchema } from '../../ingress/routes/plans.ts';
import { usageReportSchema, usageSchema } from '../../ingress/usage/usage-report.ts';
import { noCounts } from '../../shared/store/usage/usage-record.ts';
import { countTokens } from '../../workers/failover/count-tokens.ts';
import { type Stack, startStack } from '../stack/stack.ts';
import { chargedPrompt } from '../support/charged-prompt.ts';
import { documentedFetch } from '../support/documented/documented-fetch.ts';
import { createKeyClient, type KeyClient } from '../support/key-client.ts';
import { createPlanEditor } from '../support/plan-file-editor.ts';
import { readCsv } from '../support/report-side.ts';

type Usage = z.infer<typeof usageSchema>;
type Counts = Usage['total'];

/** On one backend each, so that a test knows which backend it calls. */
const models = {
  'one-server': { tier: 'guest', pool: 'default', backends: ['onprem-a'] },
  'broken-server': { tier: 'guest', pool: 'default', backends: ['onprem-a'] },
  'cut-server': { tier: 'guest', pool: 'default', backends: ['onprem-a'] },
  'repriced-chat': { tier: 'guest', pool: 'default' },
};
const plans = { generous: { tokens_per_month: 5, requests_at_once: 3, model_tiers: ['guest', 'premium'] } };

let stack: Stack;
let keys: KeyClient;
const parts = new AsyncDisposableStack();

test.before(async () => {
  const prices = { 'small-chat': [{ from: '2026-01-01', prompt: 0.25, completion: 2 }] };
  stack = parts.use(await startStack({ models, plans, prices, aliases: { 'old-name': 'small-chat' } }));
  keys = createKeyClient(stack);
});

test.after.always(() => parts.disposeAsync());

const clientOf = (apiKey: string) =>
  new OpenAI({ baseURL: `${stack.ingresses[0]?.url}/v1`, apiKey, maxRetries: 0, fetch: documentedFetch });

const thisMonth = () => new Date().toISOString().slice(0, 7);

async function usageOf(bearer: string, path = '/billing/usage'): Promise<Usage> {
  const { status, body } = await keys.send('GET', path, { bearer });
  if (status !== 200) throw new Error(`${path} was refused: ${status} ${JSON.stringify(body)}`);
  return usageSchema.parse(body);
}

/** Waits until this number of requests is drained into the store. The test's own timeout ends the wait. */
async function usageWith(requests: number, bearer: string): Promise<Usage> {
  for (;;) {
    const found = await usageOf(bearer);
    if (found.total.requests >= requests) return found;
    await sleep(50);
  }
}

function sumOf(days: readonly Counts[]): Counts {
  const sum = { ...noCounts };
  const names = Object.keys(noCounts) as (keyof Counts)[]; // its keys are those of its type
  for (const day of days) for (const name of names) sum[name] += day[name];
  return sum;
}

/** Sends `count` requests, alternating between complete and streamed. Returns the tokens that the responses report. */
async function answered(client: OpenAI, model: string, count: number) {
  const tokens = { promptTokens: 0, completionTokens: 0 };
  for (let index = 0; index < count; index++) {
    const asked = { model, messages: [{ role: 'user' as const, content: `Question ${index}` }] };
    const reported = index % 2 === 0 ? await wholeUsage(client, asked) : await streamedUsage(client, asked);
    tokens.promptTokens += reported.prompt_tokens;
    tokens.completionTokens += reported.completion_tokens;
  }
  return tokens;
}

type Asked = { model: string; messages: { role: 'user'; content: string }[] };

async function wholeUsage(client: OpenAI, asked: Asked): Promise<OpenAI.CompletionUsage> {
  const { usage: reported } = await client.chat.completions.create(asked);
  if (reported === undefined) throw new Error('a response reports its usage');
  return reported;
}

async function streamedUsage(client: OpenAI, asked: Asked): Promise<OpenAI.CompletionUsage> {
  const stream = await client.chat.completions.create({
    ...asked,
    stream: true,
    stream_options: { include_usage: true },
  });
  const chunks = await Array.fromAsync(stream);
  const reported = chunks.at(-1)?.usage;
  if (!reported) throw new Error('the last chunk reports the usage');
  return reported;
}

test('usage reports what was answered, by day and model, with failed and cancelled requests, for a key and a token alike', async (t) => {
  const key = await keys.newKey('ann');
  const client = clientOf(key);
  const [server] = stack.modelServers;
  const small = await answered(client, 'small-chat', 4);
  const medium = await answered(client, 'medium-chat', 1);
  server.fail({ status: 500 }, 'broken-server');
  const broken = { model: 'broken-server', messages: [{ role: 'user' as const, content: 'Fail' }] };
  await t.throwsAsync(client.chat.completions.create(broken), { message: /503/ });
  server.fail({ endless: true, chunkMs: 5 }, 'one-server');
  const left = { model: 'one-server', messages: [{ role: 'user' as const, content: 'Leave' }], stream: true as const };
  for await (const _chunk of await client.chat.completions.create(left)) break;

  const found = await usageWith(7, key);
  t.is(found.month, thisMonth());
  t.is(found.unit, 'tokens');
  t.true(found.data.every(({ day }) => day.startsWith(found.month)));
  // Summed per model: a day may begin in between.
  const byModel = Map.groupBy(found.data, ({ model }) => model);
  const asked = ['broken-server', 'medium-chat', 'one-server', 'small-chat'];
  t.deepEqual([...byModel.keys()].toSorted(), asked);
  const [failed, ofMedium, cancelled, ofSmall] = asked.map((model) => sumOf(byModel.get(model) ?? []));
  t.like(failed, { requests: 1, failed: 1, cancelled: 0, chargedTokens: 0 });
  t.like(cancelled, { requests: 1, failed: 0, cancelled: 1 });
  t.true((cancelled?.chargedTokens ?? 0) > 0, 'received output is charged');
  t.like(ofMedium, {
    ...noCounts,
    requests: 1,
    ...medium,
    chargedTokens: medium.promptTokens + medium.completionTokens,
  });
  t.like(ofSmall, { ...noCounts, requests: 4, ...small, chargedTokens: small.promptTokens + small.completionTokens });
  t.deepEqual(found.total, sumOf(found.data));

  t.deepEqual(await usageOf(await keys.token('ann')), found);
  t.deepEqual(await usageOf(key, `/billing/usage?month=${thisMonth()}`), found);
  const { body: quota } = await keys.send('GET', '/billing/quota', { bearer: key });
  t.is(quota.used, found.total.chargedTokens);
  t.is(quota.overageUsed, 0);

  const operator = await keys.token('olga', true);
  t.deepEqual(await usageOf(operator, '/admin/accounts/user%3Aann/usage'), found, 'operators see the same');
  t.like(await keys.send('GET', '/admin/accounts/user%3Aann/usage', { bearer: await keys.token('ann') }), {
    status: 403,
    body: { code: 'FORBIDDEN' },
  });
});

test('an interrupted stream is reported as failed, and is charged its prompt and the delivered output', async (t) => {
  const key = await keys.newKey('fay');
  stack.modelServers[0].fail({ cutAfterChunks: 3 }, 'cut-server');
  const asked = {
    model: 'cut-server',
    messages: [{ role: 'user' as const, content: 'Break off' }],
    stream: true as const,
  };
  let delivered = '';
  await t.throwsAsync(
    async () => {
      for await (const { choices } of await clientOf(key).chat.completions.create(asked)) {
        delivered += choices[0]?.delta.content ?? '';
      }
    },
    { code: 'UPSTREAM_INTERRUPTED' },
  );
  t.not(delivered, '');
  const { total, data } = await usageWith(1, key);
  t.like(data, [{ model: 'cut-server', requests: 1, failed: 1, cancelled: 0 }]);
  const promptTokens = await chargedPrompt({ endpoint: '/v1/chat/completions', request: asked });
  const completionTokens = await countTokens(delivered);
  t.like(total, { promptTokens, completionTokens, chargedTokens: promptTokens + completionTokens });
  const { body: quota } = await keys.send('GET', '/billing/quota', { bearer: key });
  t.is(quota.used, total.chargedTokens);
});

test('a report has the cost of requests by the prices of the model, also if it was called by an alias', async (t) => {
  const key = await keys.newKey('ian');
  const client = clientOf(key);
  const tokens = await answered(client, 'small-chat', 2);
  const { prompt_tokens, completion_tokens } = await wholeUsage(client, {
    model: 'old-name',
    messages: [{ role: 'user', content: 'By its alias' }],
  });
  await answered(client, 'medium-chat', 1);
  await usageWith(4, key);
  const ask = async (query: string, bearer = key, path = '/billing/usage') => {
    const url = `${stack.ingresses[0]?.url}${path}?${query}`;
    return documentedFetch(url, { headers: { authorization: `Bearer ${bearer}` } });
  };
  const report = usageReportSchema.parse(await (await ask('group_by=model')).json());
  const promptTokens = tokens.promptTokens + prompt_tokens;
  const completionTokens = tokens.completionTokens + completion_tokens;
  // 0.25 and 2 for a million tokens.
  const cost = String((promptTokens * 25 + completionTokens * 200) / 100_000_000);
  t.like(report.data, [
    { model: 'medium-chat', requests: 1, cost: '0' },
    { model: 'small-chat', requests: 3, promptTokens, completionTokens, cost, unpricedTokens: 0 },
  ]);
  t.like(report.total, { requests: 4, cost, unpricedTokens: report.data[0]?.chargedTokens });
  t.is(report.currency, 'USD');

  const csv = await (await ask('group_by=model&format=csv')).text();
  t.deepEqual(
    readCsv(csv).map(({ model, cost: shown, currency }) => [model, shown, currency]),
    [
      ['medium-chat', '0', 'USD'],
      ['small-chat', cost, 'USD'],
    ],
  );
  const operator = await keys.token('olga', true);
  const all = usageReportSchema.parse(await (await ask('order=charged&limit=1000', operator, '/admin/usage')).json());
  t.like(
    all.data.find(({ account }) => account === 'user:ian'),
    { requests: 4, cost },
  );
});

test('the models of a plan have the price of the day, an alias that of its model, and a model without one none', async (t) => {
  const key = await keys.newKey('priced-models');
  const price = { prompt: '0.25', cached: '0.25', completion: '2', currency: 'USD' };
  const { data } = (await keys.send('GET', '/v1/models', { bearer: key })).body as { data: { id: string }[] };
  t.like(
    data.find(({ id }) => id === 'small-chat'),
    { price },
  );
  t.false('price' in (data.find(({ id }) => id === 'one-server') ?? {}));
  t.like((await keys.send('GET', '/v1/models/old-name', { bearer: key })).body, { id: 'old-name', price });
});

test('prices that are added to the plan file hold from the next report, also for usage before', async (t) => {
  const key = await keys.newKey('pia');
  await answered(clientOf(key), 'repriced-chat', 1);
  await usageWith(1, key);
  const report = async () => {
    const { status, body } = await keys.send('GET', '/billing/usage?group_by=endpoint', { bearer: key });
    t.is(status, 200);
    return usageReportSchema.parse(body).total;
  };
  const { cost, unpricedTokens, promptTokens, completionTokens } = await report();
  t.deepEqual([cost, unpricedTokens], ['0', promptTokens + completionTokens]);
  const editor = createPlanEditor(stack);
  const price = { from: '2026-01-01', prompt: 1_000_000, completion: 0.5 };
  const generation = await editor.change((plan) => Object.assign(plan.prices ?? {}, { 'repriced-chat': [price] }));
  await editor.until(stack.ingresses, (shown) => shown.generation === generation);
  t.like(await report(), { cost: String(promptTokens + completionTokens / 2_000_000), unpricedTokens: 0 });
});

test('another month, another account and an unused account have no usage', async (t) => {
  const key = await keys.newKey('bob');
  await keys.infer(key);
  await usageWith(1, key);
  const other = await keys.newKey('cid');
  t.like(await usageOf(key, '/billing/usage?month=2001-02'), {
    month: '2001-02',
    total: noCounts,
    data: { length: 0 },
  });
  t.like(await usageOf(other), { month: thisMonth(), total: noCounts, data: { length: 0 } });
  t.like(await usageOf(await keys.token('never-used')), { total: noCounts, data: { length: 0 } });
});

test('a device has its usage and plan, and operators see them', async (t) => {
  const { body } = await keys.guest('device-of-usage');
  const key = String(body.key);
  t.is((await keys.infer(key)).status, 200);
  const found = await usageWith(1, key);
  t.like(found.data, [{ model: 'small-chat', requests: 1, failed: 0 }]);
  const device = `device:${createHash('sha256').update('device-of-usage').digest('hex')}`;
  const operator = await keys.token('olga', true);
  t.deepEqual(await usageOf(operator, `/admin/accounts/${device}/usage`), found);
  const { body: plan } = await keys.send('GET', '/billing/plan', { bearer: key });
  t.like(plan, { plan: 'guest-device', requestsPerDay: 50, requestsPerMinute: 5 });
  t.deepEqual(plan.models, ['small-chat', ...Object.keys(models)]);
});

test('charges beyond the allowance are counted as overage', async (t) => {
  const key = await keys.newKey('dora');
  await keys.change('user:dora', { plan: 'generous', overageEnabled: true });
  await keys.infer(key);
  await usageWith(1, key);
  await keys.infer(key);
  const { total } = await usageWith(2, key);
  t.true(total.overageTokens > 0);
  t.true(total.overageTokens <= total.chargedTokens);
  const { body: quota } = await keys.send('GET', '/billing/quota', { bearer: key });
  t.like(quota, { overageUsed: total.overageTokens, used: total.chargedTokens });
});

test('a plan is the caller’s current one, with the same limits and models that operators see in the list of plans', async (t) => {
  const key = await keys.newKey('ed');
  const planOf = async (bearer: string) =>
    planLimitsSchema.parse((await keys.send('GET', '/billing/plan', { bearer })).body);
  const free = await planOf(key);
  t.like(free, { plan: 'free', requestsPerMinute: 600, requestsPerDay: null });
  t.deepEqual(free.models, ['small-chat', 'medium-chat', ...Object.keys(models)]);
  await keys.change('user:ed', { plan: 'generous' });
  const generous = await planOf(key);
  t.deepEqual(generous, {
    plan: 'generous',
    requestsPerMinute: null,
    tokensPerMinute: null,
    tokensPerMonth: 5,
    overage: 'self-service',
    overageTokensPerMonth: null,
    requestsPerDay: null,
    requestsAtOnce: 3,
    batchRequestsAtOnce: null,
    batchTokensWaiting: null,
    models: ['small-chat', 'large-chat', ...Object.keys(models)],
  });
  t.deepEqual(await planOf(await keys.token('ed')), generous);
  const listed = (await keys.models(key)).body.data as { id: string }[]; // the list of the service itself
  t.deepEqual(
    listed.map(({ id }) => id),
    generous.models,
  );
  const { body } = await keys.send('GET', '/admin/plans', { bearer: await keys.token('olga', true) });
  const all = planListSchema.parse(body).data;
  t.deepEqual(
    all.map(({ plan }) => plan),
    ['free', 'pro', 'guest-device', 'generous'],
  );
  t.deepEqual([all[0], all[3]], [free, generous]);
});

test('operators page through all accounts, each once, and find one in its current state', async (t) => {
  const names = ['pager-1', 'pager-2', 'pager-3', 'pager-%', 'pager-_'];
  for (const name of names) await keys.newKey(name);
  await keys.change('user:pager-2', { plan: 'pro', suspended: true });
  const operator = await keys.token('olga', true);
  const list = async (query: string) =>
    accountListSchema.parse((await keys.send('GET', `/admin/accounts?${query}`, { bearer: operator })).body);
  const found: string[] = [];
  for (let after = ''; ; ) {
    const page = await list(`prefix=user:pager-&limit=2${after}`);
    found.push(...page.data.map(({ account }) => account));
    if (!page.has_more) break;
    after = `&after=${encodeURIComponent(found.at(-1) ?? '')}`;
  }
  t.deepEqual(found, names.map((name) => `user:${name}`).sort());
  const [second] = (await list('prefix=user:pager-2')).data;
  t.like(second, { plan: 'pro', suspended: true, overageEnabled: false });
  const { body } = await keys.account('user:pager-2');
  t.is(second?.createdAt, String(body.createdAt));
});
