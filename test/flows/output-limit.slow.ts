import test from 'ava';
import OpenAI from 'openai';
import { type Stack, startStack } from '../stack/stack.ts';
import { awaitMetric } from '../support/await-metric.ts';
import { lineOf, openBatchClient } from '../support/batch-client.ts';
import { documentedFetch } from '../support/documented/documented-fetch.ts';

const limit = 20;
/** The maximum length of a stream by our tokenizer if its backend reports no usage. */
const slack = 1.5 * limit + 64;
const model = 'greedy-chat';
const messages = [{ role: 'user' as const, content: 'repeat 2000' }];
let stack: Stack;

test.before(async () => {
  stack = await startStack({ models: { [model]: { tier: 'guest', pool: 'default', backends: ['onprem-a'] } } });
  stack.modelServers[0].fail({ ignoresLimit: true, chunkMs: 1 }, model);
});

test.after.always(() => stack?.[Symbol.asyncDispose]());

async function open(account: string) {
  const apiKey = await stack.mintKey(account);
  const baseURL = `${stack.ingresses[0]?.url}/v1`;
  const client = new OpenAI({ apiKey, baseURL, maxRetries: 0, fetch: documentedFetch });
  /** The charge of the month for these requests, once it is recorded. */
  async function charged(
    requests: number,
  ): Promise<{ completionTokens: number; promptTokens: number; chargedTokens: number }> {
    while (true) {
      const headers = { authorization: `Bearer ${apiKey}` };
      const response = await fetch(`${stack.ingresses[0]?.url}/billing/usage`, { headers });
      const { total } = (await response.json()) as {
        total: Awaited<ReturnType<typeof charged>> & { requests: number };
      };
      if (total.requests >= requests) return total;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }
  return { apiKey, client, charged };
}

test('a stream beyond its limit ends like one at its limit, and is charged no more', async (t) => {
  const { client, charged } = await open('streams');
  const asked = { model, messages, max_tokens: limit, stream_options: { include_usage: true } };
  const stream = client.chat.completions.stream(asked);
  const { choices, usage } = await stream.finalChatCompletion();
  t.is(choices[0]?.finish_reason, 'length');
  t.is(usage?.completion_tokens, limit);
  const text = choices[0]?.message.content ?? '';
  t.true(text.startsWith('You said: repeat 2000.') && text.length < slack * 8, `${text.length} characters`);
  const call = await stack.modelServers[0].waitForCall(
    ({ state, stream: isStream }) => isStream && state === 'aborted',
  );
  t.true(call.completionTokens < 2_000, 'the call was ended early');
  t.like(await charged(1), { completionTokens: limit });
});

test('complete responses end at the limit, whether assembled or relayed, and are charged no more', async (t) => {
  const { client, charged } = await open('wholes');
  const short = [{ role: 'user' as const, content: 'repeat 20' }];
  for (const fields of [{}, { modalities: ['text' as const, 'audio' as const] }]) {
    const { choices, usage } = await client.chat.completions.create({
      model,
      messages: short,
      max_tokens: limit,
      ...fields,
    });
    t.is(choices[0]?.finish_reason, 'length');
    t.is(usage?.completion_tokens, limit);
    t.is(usage?.total_tokens, limit + (usage?.prompt_tokens ?? 0));
    const text = choices[0]?.message.content ?? '';
    t.true(text.startsWith('You said') && text.length < slack * 8, `${text.length} characters`);
  }
  const total = await charged(2);
  t.is(total.completionTokens, 2 * limit);
  t.is(total.chargedTokens, total.completionTokens + total.promptTokens);
  const [worker] = stack.workers;
  if (worker !== undefined) await awaitMetric(worker, /^svc_backend_attempts_total\{.*outcome="over_limit".*\} [2-9]/m);
});

test('a line of a batch ends at its limit, and is charged no more', async (t) => {
  const { apiKey, charged } = await open('lines');
  const user = await openBatchClient(stack, 'lines', apiKey);
  const { id } = await user.create(lineOf('long', { model, maxTokens: limit, content: 'repeat 2000' }));
  const batch = await user.ended(id);
  const [line] = await user.output(batch);
  t.is(line?.response?.body.choices[0]?.finish_reason, 'length');
  t.is(line?.response?.body.usage?.completion_tokens, limit);
  t.like(await charged(1), { completionTokens: limit });
});
