import { setTimeout as sleep } from 'node:timers/promises';
import test, { type ExecutionContext } from 'ava';
import OpenAI, { APIError } from 'openai';
import { countersKey } from '../../shared/redis/keys.ts';
import type { Stack } from '../stack/stack.ts';
import { documentedFetch } from '../support/documented/documented-fetch.ts';
import { createKeyClient, type KeyClient } from '../support/key-client.ts';
import { openRedis } from '../support/open-redis.ts';
import { openSharedStack } from '../support/shared-stack.ts';

const tiers = { model_tiers: ['guest', 'standard'] };
const plans = {
  'one-a-minute': { requests_per_minute: 1, ...tiers },
  'few-tokens': { tokens_per_minute: 300, ...tiers },
  'one-at-once': { requests_at_once: 1, ...tiers },
  'one-a-day': { requests_per_day: 1, ...tiers },
  'one-token': { tokens_per_month: 1, ...tiers },
};

const shared = openSharedStack(test, { isAtBaseUrl: true, plans });
let stack: Stack;
let keys: KeyClient;

test.before(async () => {
  stack = await shared.started();
  keys = createKeyClient(stack);
});

/** An official client with its default settings, and its exchanges on the wire: when each was sent, and the response. */
async function openClient(account: string, plan: keyof typeof plans) {
  const apiKey = await keys.newKey(account);
  await keys.change(`user:${account}`, { plan });
  const exchanges: { sentAt: number; status: number; waitMs: number }[] = [];
  const client = new OpenAI({
    baseURL: `${stack.ingresses[0]?.url}/v1`,
    apiKey,
    async fetch(url, init) {
      const sentAt = performance.now();
      const response = await documentedFetch(url, init);
      exchanges.push({ sentAt, status: response.status, waitMs: Number(response.headers.get('retry-after-ms')) });
      return response;
    },
  });
  const ask = ({ model = 'small-chat', tokens = 20 } = {}) =>
    client.chat.completions.create({ model, messages: [{ role: 'user', content: 'Hello' }], max_tokens: tokens });
  return { ask, exchanges };
}

/** Moves the account's last minute into the past by `ms`, so that a test need not wait for all of it. */
async function ageWindow(account: string, ms: number): Promise<void> {
  const redis = openRedis(stack.redisUrl);
  const [buckets = '[]'] = (await redis.hget(countersKey(account), 'window'))?.split(' ') ?? [];
  const window = JSON.parse(buckets) as [number, ...number[]][];
  const aged = window.map(([begun, requests, tokens, last = 0]) => [begun - ms, requests, tokens, last - ms]);
  await redis.hset(countersKey(account), 'window', JSON.stringify(aged));
  redis.disconnect();
}

function assertRetriedOnce(t: ExecutionContext, exchanges: { sentAt: number; status: number; waitMs: number }[]): void {
  const [refused, answered] = exchanges.slice(-2);
  t.deepEqual([refused?.status, answered?.status], [429, 200]);
  const pausedMs = (answered?.sentAt ?? 0) - (refused?.sentAt ?? 0);
  t.true((refused?.waitMs ?? 0) > 0 && pausedMs >= (refused?.waitMs ?? 0), `${pausedMs} ms for ${refused?.waitMs}`);
}

test('a burst of requests is retried after the advertised wait, and succeeds', async (t) => {
  const { ask, exchanges } = await openClient('requests', 'one-a-minute');
  await ask();
  await ageWindow('user:requests', 50_000);
  t.is((await ask()).object, 'chat.completion');
  t.is(exchanges.length, 3);
  assertRetriedOnce(t, exchanges);
});

test('a burst of tokens is retried, too', async (t) => {
  const { ask, exchanges } = await openClient('tokens', 'few-tokens');
  await ask({ tokens: 100 });
  await ageWindow('user:tokens', 50_000);
  t.is((await ask({ tokens: 265 })).object, 'chat.completion');
  t.is(exchanges.length, 3);
  assertRetriedOnce(t, exchanges);
});

test('a request beyond the concurrency limit is retried, too', async (t) => {
  const { ask, exchanges } = await openClient('at-once', 'one-at-once');
  const model = 'medium-chat'; // used by no other test
  t.timeout(60_000);
  for (const server of stack.modelServers) server.fail({ untilHealed: true }, model);
  const first = ask({ model });
  await Promise.any(stack.modelServers.map((server) => server.waitForCall((call) => call.model === model)));
  const second = ask({ model });
  while (!exchanges.some(({ status }) => status === 429)) await sleep(20);
  for (const server of stack.modelServers) server.heal(model);
  t.is((await first).object, 'chat.completion');
  t.is((await second).object, 'chat.completion');
  assertRetriedOnce(
    t,
    exchanges.toSorted((one, other) => one.sentAt - other.sentAt),
  );
});

test('a limit that no wait lifts is not retried: a model outside the plan, a used-up day or month', async (t) => {
  const cases = [
    ['premium', 'one-a-minute', 'large-chat', 429, 'plan_limit'],
    ['daily', 'one-a-day', 'small-chat', 429, 'daily_limit'],
    ['spent', 'one-token', 'small-chat', 402, 'quota_limit'],
  ] as const;
  for (const [account, plan, model, status, type] of cases) {
    const { ask, exchanges } = await openClient(account, plan);
    if (model === 'small-chat') await ask();
    const before = exchanges.length;
    const error = await t.throwsAsync(ask({ model }), { instanceOf: APIError });
    t.like(error, { status, type }, account);
    t.is(exchanges.length - before, 1, `${account}: one request on the wire`);
  }
});
