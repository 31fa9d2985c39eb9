import test, { type ExecutionContext } from 'ava';
import { type Stack, startStack } from '../../stack/stack.ts';
import { createFurtherKeyClient } from '../../support/further-key-client.ts';
import { createKeyClient, type KeyClient } from '../../support/key-client.ts';

let stack: Stack;
let keys: KeyClient;
const parts = new AsyncDisposableStack();

test.before(async () => {
  const plans = { 'four-a-minute': { requests_per_minute: 4, model_tiers: ['guest'] } };
  stack = parts.use(await startStack({ ingresses: 2, plans }));
  keys = createKeyClient(stack);
});

test.after.always(() => parts.disposeAsync());

const body = { model: 'small-chat', messages: [{ role: 'user', content: 'Hello' }], max_tokens: 50 };

/** Sends with a key, at the two ingresses in turn. */
function asking(key: string) {
  let requests = 0;
  const client = createKeyClient(stack, { url: () => stack.ingresses[requests++ % 2]?.url ?? '' });
  return (more: object = {}) =>
    client.send('POST', '/v1/chat/completions', { bearer: key, body: { ...body, ...more } });
}

type Answered = Awaited<ReturnType<KeyClient['send']>>;
const errorOf = (answer: Answered) => answer.body.error as Record<string, unknown>;
const rates = ({ headers }: Answered) =>
  ['limit-requests', 'remaining-requests', 'limit-tokens', 'remaining-tokens'].map((name) =>
    headers.get(`x-ratelimit-${name}`),
  );

function assertLimited(t: ExecutionContext, answer: Answered, type: string): void {
  t.is(answer.status, 429, JSON.stringify(answer.body));
  t.like(errorOf(answer), { code: 'rate_limit_exceeded', type });
  const waitMs = Number(errorOf(answer).retry_after_ms);
  t.true(waitMs > 0 && waitMs <= 60_000);
  t.is(answer.headers.get('retry-after-ms'), String(waitMs));
}

test('the requests per minute of a key are its own, and its headers show them', async (t) => {
  const account = createFurtherKeyClient(keys, 'rita');
  const { id, key } = await account.create({ limits: { requests_per_minute: 2 } });
  const other = await account.create();
  const ask = asking(key);
  for (const remaining of ['1', '0']) {
    const answer = await ask();
    t.is(answer.status, 200);
    t.deepEqual(rates(answer).slice(0, 2), ['2', remaining]);
  }
  assertLimited(t, await ask(), 'key_requests_limit');
  t.is((await asking(other.key)()).status, 200);
  t.is((await account.change(id, { limits: { requests_per_minute: 3 } })).status, 200);
  t.is((await ask()).status, 200);
  assertLimited(t, await ask(), 'key_requests_limit');
  t.is((await account.change(id, { limits: null })).status, 200);
  t.is((await ask()).status, 200);
});

test('the tokens per minute of a key are charged as used; a request that can never pass is refused at once', async (t) => {
  const account = createFurtherKeyClient(keys, 'tom');
  const { key } = await account.create({ limits: { tokens_per_minute: 200 } });
  const ask = asking(key);
  const first = await ask();
  t.is(first.status, 200);
  const { usage } = first.body as { usage: { total_tokens: number } };
  const second = await ask();
  t.is(second.status, 200);
  t.is(rates(await ask({ max_tokens: 150 }))[2], '200');
  const never = await ask({ max_tokens: 200 });
  t.like(never, { status: 400, body: { code: 'VALIDATION_ERROR' } });
  t.regex(String(never.body.error), /of this API key/);
  let last = second;
  let charged = 2 * usage.total_tokens;
  while (last.status === 200) {
    last = await ask();
    if (last.status === 200) charged += usage.total_tokens;
  }
  assertLimited(t, last, 'key_tokens_limit');
  t.true(charged <= 200);
});

test('the month of a key is counted from its usage, also from before it had a limit', async (t) => {
  const account = createFurtherKeyClient(keys, 'mona');
  const { id, key } = await account.create();
  const other = await account.create();
  const ask = asking(key);
  const first = await ask();
  const { usage } = first.body as { usage: { total_tokens: number } };
  t.is((await asking(other.key)()).status, 200);
  const limit = 2 * usage.total_tokens;
  t.is((await account.change(id, { limits: { tokens_per_month: limit } })).status, 200);
  t.is((await ask()).status, 200, 'one request is left');
  const refused = await ask();
  t.is(refused.status, 402, JSON.stringify(refused.body));
  t.like(errorOf(refused), { code: 'quota_exceeded', type: 'key_quota_limit' });
  t.is(refused.headers.get('x-should-retry'), 'false');
  t.is((await asking(other.key)()).status, 200);
  t.is((await account.change(id, { limits: { tokens_per_month: limit + 1 } })).status, 200);
  t.is((await ask()).status, 200);
  t.is((await ask()).status, 402);
});

test('the limits of the account hold for all of its keys together, and a key never widens them', async (t) => {
  const account = createFurtherKeyClient(keys, 'ada');
  const limits = { requests_per_minute: 1_000_000, tokens_per_month: 1_000_000_000 };
  const asks = [await account.create({ limits }), await account.create()].map(({ key }) => asking(key));
  t.is((await keys.change('user:ada', { plan: 'four-a-minute' })).status, 200);
  for (const ask of [...asks, ...asks]) t.is((await ask()).status, 200);
  for (const ask of asks) assertLimited(t, await ask(), 'requests_limit');
});
