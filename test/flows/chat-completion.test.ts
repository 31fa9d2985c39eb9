import test from 'ava';
import OpenAI, { APIError, AuthenticationError, BadRequestError, RateLimitError } from 'openai';
import { answerFor } from '../stack/model-server.ts';
import { oneBackend } from '../stack/plan.ts';
import { type Stack, startStack } from '../stack/stack.ts';
import { chargedPrompt } from '../support/charged-prompt.ts';
import { documentedFetch } from '../support/documented/documented-fetch.ts';

let stack: Stack;
let client: OpenAI;

test.before(async () => {
  stack = await startStack({ models: oneBackend, modelServers: { splitBytes: true } });
  client = clientWith(await stack.mintKey('alice'));
});

test.after.always(async () => {
  await stack?.[Symbol.asyncDispose]();
});

function clientWith(apiKey: string): OpenAI {
  return new OpenAI({ apiKey, baseURL: `${stack.ingresses[0]?.url}/v1`, maxRetries: 0, fetch: documentedFetch });
}

const messages = [
  { role: 'system' as const, content: 'Antworte höflich.' },
  { role: 'user' as const, content: 'Was heißt 東京 👩‍👩‍👧‍👦 ?' },
];
const expected = answerFor(messages);

test('a complete response has the requested text, usage and model', async (t) => {
  const answer = await client.chat.completions.create({ model: 'small-chat', messages });
  t.is(answer.choices[0]?.message.content, expected);
  t.is(answer.choices[0]?.finish_reason, 'stop');
  t.is(answer.model, 'small-chat');
  t.true((answer.usage?.completion_tokens ?? 0) > 0);
});

test('a stream has the same text byte for byte, and usage only on request', async (t) => {
  let text = '';
  let finishReason: string | null = null;
  for await (const chunk of await client.chat.completions.create({ model: 'small-chat', messages, stream: true })) {
    t.false('usage' in chunk);
    t.is(chunk.choices.length, 1);
    text += chunk.choices[0]?.delta.content ?? '';
    finishReason = chunk.choices[0]?.finish_reason ?? finishReason;
  }
  t.is(text, expected);
  t.is(finishReason, 'stop');
});

test('responses report the queue wait, complete and streamed; requests that were never queued report none', async (t) => {
  const queueMs = async (response: Promise<Response>) => (await response).headers.get('x-svc-queue-ms') ?? '';
  const { completions } = client.chat;
  t.regex(await queueMs(completions.create({ model: 'small-chat', messages }).asResponse()), /^\d+$/);
  t.regex(await queueMs(completions.create({ model: 'small-chat', messages, stream: true }).asResponse()), /^\d+$/);
  const unknown = await t.throwsAsync(completions.create({ model: 'none', messages }), { instanceOf: BadRequestError });
  t.is(unknown?.headers.get('x-svc-queue-ms'), null, 'it was never queued');
});

test('on request, sends usage as a last chunk without choices', async (t) => {
  const options = { model: 'small-chat', messages, stream: true, stream_options: { include_usage: true } } as const;
  const chunks = await Array.fromAsync(await client.chat.completions.create(options));
  const whole = await client.chat.completions.create({ model: 'small-chat', messages });
  const last = chunks.at(-1);
  t.deepEqual(last?.choices, []);
  t.deepEqual(last?.usage, whole.usage);
  t.true(chunks.slice(0, -1).every((chunk) => chunk.usage == null && chunk.choices.length === 1));
});

test('ends a stream with [DONE] and sends nothing after it', async (t) => {
  const response = await post({ model: 'small-chat', messages, stream: true });
  t.is(response.headers.get('content-type'), 'text/event-stream; charset=utf-8');
  const text = await response.text();
  t.true(text.endsWith('data: [DONE]\n\n'));
  t.is(text.split('[DONE]').length, 2);
});

test('passes on tools and tool calls, complete and streamed', async (t) => {
  const tools = [
    { type: 'function' as const, function: { name: 'weather', parameters: { type: 'object', properties: {} } } },
  ];
  const asking = [{ role: 'user' as const, content: 'Please call weather' }];
  const whole = await client.chat.completions.create({ model: 'small-chat', messages: asking, tools });
  const call = whole.choices[0]?.message.tool_calls?.[0];
  t.is(whole.choices[0]?.finish_reason, 'tool_calls');
  t.true(call?.type === 'function' && call.function.name === 'weather');

  const stream = client.chat.completions.stream({ model: 'small-chat', messages: asking, tools });
  const streamed = (await stream.finalChatCompletion()).choices[0]?.message.tool_calls?.[0];
  t.true(call?.type === 'function' && streamed?.type === 'function');
  if (call?.type !== 'function' || streamed?.type !== 'function') return;
  t.is(streamed.function.arguments, call.function.arguments);
});

test('sends the backend the client’s fields, including fields specific to an engine', async (t) => {
  const marker = 'unchanged';
  const body = `{"messages":[{"role":"user","content":"${marker}"}],"chat_template_kwargs":{"a":[1,null]},"modalities":["text","audio"],"model":"small-chat"}`;
  const response = await post(body);
  t.is(response.status, 200);
  const calls = stack.modelServers.flatMap((server) => server.calls());
  const call = calls.findLast((seen) => JSON.stringify(seen.body).includes(marker));
  t.like(call?.body, {
    chat_template_kwargs: { a: [1, null] },
    model: 'small-chat',
    max_tokens: 4_096,
  });
  t.false(JSON.stringify(call?.body).includes('stream_options'));
});

test.serial('a client that disconnects from a stream ends the backend call', async (t) => {
  const [server] = stack.modelServers;
  server.fail({ endless: true, chunkMs: 5, times: 1 });
  const leaving = [{ role: 'user' as const, content: 'an abandoned stream' }];
  const stream = await client.chat.completions.create({ model: 'small-chat', messages: leaving, stream: true });
  for await (const _chunk of stream) break;
  const left = await server.waitForCall(
    ({ body, state }) => JSON.stringify(body).includes('an abandoned stream') && state !== 'running',
  );
  t.is(left.state, 'aborted');
  t.is((await client.chat.completions.create({ model: 'small-chat', messages })).choices[0]?.message.content, expected);
});

test.serial('reports usage even if the backend reports none, complete and streamed', async (t) => {
  const model = 'medium-chat';
  for (const server of stack.modelServers) server.fail({ noUsage: true }, model);
  const charged = async (request: object) => {
    const prompt = await chargedPrompt({ endpoint: '/v1/chat/completions', request });
    return { prompt_tokens: prompt, completion_tokens: completion, total_tokens: prompt + completion };
  };
  const whole = await client.chat.completions.create({ model, messages });
  const completion = whole.usage?.completion_tokens ?? 0;
  t.true(completion >= 30 && completion <= 200, `${completion}`);
  t.deepEqual<unknown, unknown>(whole.usage, await charged({ model, messages }));
  const streamed = { model, messages, stream: true, stream_options: { include_usage: true } } as const;
  const chunks = await Array.fromAsync(await client.chat.completions.create(streamed));
  t.deepEqual(chunks.at(-1)?.choices, []);
  t.deepEqual<unknown, unknown>(chunks.at(-1)?.usage, await charged(streamed));
  for await (const chunk of await client.chat.completions.create({ model, messages, stream: true })) {
    t.false('usage' in chunk);
  }
  for (const server of stack.modelServers) server.heal();
});

test('the SDK reports a wrong key as 401 INVALID_KEY', async (t) => {
  const wrong = clientWith('svc_0000000000000000000000000000000000000A');
  const error = await t.throwsAsync(wrong.chat.completions.create({ model: 'small-chat', messages }), {
    instanceOf: AuthenticationError,
  });
  t.is(error?.status, 401);
});

test('missing messages get 400 naming the field', async (t) => {
  const error = await t.throwsAsync(client.chat.completions.create({ model: 'small-chat' } as never), {
    instanceOf: BadRequestError,
  });
  t.regex(String(error?.message), /messages/);
});

test('an unknown model gets 400 naming the model; one outside the plan gets 429 plan_limit and is not retried', async (t) => {
  await t.throwsAsync(client.chat.completions.create({ model: 'no-such-model', messages }), {
    instanceOf: BadRequestError,
    message: /model/,
  });
  const error = await t.throwsAsync(client.chat.completions.create({ model: 'large-chat', messages }), {
    instanceOf: RateLimitError,
  });
  t.true(error instanceof APIError);
  t.is(error?.headers?.get('x-should-retry'), 'false');
  t.like(error?.error, { code: 'rate_limit_exceeded', type: 'plan_limit', retry_after_ms: 0 });
});

test('lists the models of the plan, and one of them, for a key and for a sign-in token', async (t) => {
  const withToken = clientWith(await stack.identity.token('newcomer'));
  for (const sdk of [client, withToken]) {
    const ids = (await Array.fromAsync(sdk.models.list())).map(({ id }) => id);
    t.deepEqual(ids, ['small-chat', 'medium-chat']);
    t.like(await sdk.models.retrieve('small-chat'), { id: 'small-chat', object: 'model', tier: 'guest' });
    await t.throwsAsync(sdk.models.retrieve('large-chat'), { message: /404/ });
  }
});

async function post(body: object | string): Promise<Response> {
  const authorization = `Bearer ${client.apiKey}`;
  return documentedFetch(`${stack.ingresses[0]?.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization },
    body: typeof body === 'string' ? body : JSON.stringify(body),
  });
}
