import test from 'ava';
import { countTokens } from '../../../workers/failover/count-tokens.ts';
import { countedTokensOf } from '../../stack/model-server.ts';
import { type Stack, startStack } from '../../stack/stack.ts';
import { openAccount } from '../../support/endpoints/open-account.ts';
import { everyEndpoint } from '../../support/every-endpoint.ts';

const plans = {
  'two-a-minute': { requests_per_minute: 2, model_tiers: ['guest'] },
  'few-tokens': { tokens_per_minute: 1_000, model_tiers: ['guest'] },
};
const model = 'everything';
const messages = [{ role: 'user' as const, content: 'Was heißt 東京 👩‍👩‍👧‍👦 ?' }];
const asked = { model, messages, system: 'Antworte höflich.' };
const parts = new AsyncDisposableStack();
let counting: Stack;
let without: Stack;

test.before(async () => {
  counting = parts.use(await startStack({ models: everyEndpoint, plans }));
  without = parts.use(await startStack({ models: everyEndpoint, modelServers: { countTokens: false } }));
});
test.after.always(() => parts.disposeAsync());

test('the backend counts, and nothing is charged', async (t) => {
  const account = await openAccount(counting, 'counted');
  const { data, response } = await account.anthropic.messages.countTokens(asked).withResponse();
  t.deepEqual(data, { input_tokens: countedTokensOf(asked) });
  t.is(response.headers.get('x-svc-estimated'), null);
  t.is(response.headers.get('request-id'), response.headers.get('x-request-id'));
  const calls = counting.modelServers.flatMap((server) => server.calls());
  t.true(
    calls.some(({ path, body }) => path === '/v1/messages/count_tokens' && JSON.stringify(body).includes('höflich')),
  );
  await account.assertCharged(t, 1, { promptTokens: 0, completionTokens: 0 });
});

test('it counts as a request', async (t) => {
  const { anthropic } = await openAccount(counting, 'count-limited', { plan: 'two-a-minute' });
  await anthropic.messages.countTokens(asked);
  await anthropic.messages.countTokens(asked);
  const error = await t.throwsAsync(anthropic.messages.countTokens(asked));
  t.like(error, { status: 429, type: 'rate_limit_error', error: { error: { limit: 'requests_limit' } } });
});

test('the estimate is reserved while it counts, and given back at its end', async (t) => {
  const { anthropic } = await openAccount(counting, 'count-reserved', { plan: 'few-tokens' });
  const long = { ...asked, system: 'word '.repeat(500) };
  for (let time = 0; time < 3; time++) {
    const { response } = await anthropic.messages.countTokens(long).withResponse();
    const remaining = Number(response.headers.get('x-ratelimit-remaining-tokens'));
    t.true(remaining > 0 && remaining < 500, `${remaining} after admission`);
  }
  const error = await t.throwsAsync(anthropic.messages.countTokens({ ...asked, system: 'word '.repeat(1_000) }));
  t.like(error, { status: 400 });
  t.regex(error?.message ?? '', /messages: are about \d+ tokens: that exceeds the 1000 tokens per minute/);
});

test('an invalid request is refused, and a model without messages is named', async (t) => {
  const { anthropic } = await openAccount(counting, 'count-invalid');
  const wrong = await t.throwsAsync(anthropic.messages.countTokens({ model, messages: [] }));
  t.like(wrong, { status: 400, type: 'invalid_request_error' });
  t.regex(wrong?.message ?? '', /messages: expected at least one message/);
  const other = await t.throwsAsync(anthropic.messages.countTokens({ ...asked, model: 'small-chat' }));
  t.regex(other?.message ?? '', /does not offer messages/);
});

test('if no backend has the route, our tokenizer counts, a header says so, and nothing is charged', async (t) => {
  const account = await openAccount(without, 'estimated');
  const { data, response } = await account.anthropic.messages.countTokens(asked).withResponse();
  t.is(response.headers.get('x-svc-estimated'), 'true');
  t.is(data.input_tokens, (await countTokens(`${asked.system}\n${messages[0]?.content}`)) + 4);
  await account.assertCharged(t, 1, { promptTokens: 0, completionTokens: 0 });
});

test('tools count in an estimate, too', async (t) => {
  const { anthropic } = await openAccount(without, 'estimated-tools');
  const tools = [{ name: 'weather', description: 'word '.repeat(500), input_schema: { type: 'object' as const } }];
  const { input_tokens } = await anthropic.messages.countTokens({ ...asked, tools });
  t.true(input_tokens > 500, `${input_tokens}`);
});

test('a backend without the route does not count as failed, however often it is asked', async (t) => {
  const { anthropic } = await openAccount(without, 'estimated-often');
  await Promise.all(Array.from({ length: 40 }, () => anthropic.messages.countTokens(asked)));
  const [worker] = without.workers;
  const metrics = await (await fetch(`${worker?.operationsUrl}/metrics`)).text();
  const attempts = [...metrics.matchAll(/^svc_backend_attempts_total\{(.*)\} (\d+)$/gm)];
  const outcomes = new Set(attempts.map(([, labels = '']) => /outcome="(\w+)"/.exec(labels)?.[1]));
  t.deepEqual([...outcomes], ['not_offered']);
  const states = [...metrics.matchAll(/^svc_backend_breaker_state\{.*\} (\d+)$/gm)].map(([, state]) => state);
  t.true(states.length > 0 && states.every((state) => state === '0'), metrics);
  const answer = await anthropic.messages.create({ ...asked, max_tokens: 100 });
  t.is(answer.role, 'assistant');
});

test.serial('if every backend fails, our tokenizer counts as well', async (t) => {
  for (const server of counting.modelServers) server.fail({ status: 500 });
  const { anthropic } = await openAccount(counting, 'count-failing');
  const { response } = await anthropic.messages.countTokens(asked).withResponse();
  t.is(response.headers.get('x-svc-estimated'), 'true');
  for (const server of counting.modelServers) server.heal();
});
