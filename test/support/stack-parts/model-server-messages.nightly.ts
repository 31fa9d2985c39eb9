import test from 'ava';
import {
  answerFor,
  answerMessages,
  countedTokensOf,
  type ModelServer,
  messagesOfAnthropic,
  pieces,
  promptTokensOf,
  startModelServer,
  toolArgumentsFor,
} from '../../stack/model-server.ts';

const model = 'small-chat';
const user = { role: 'user' as const, content: 'Grüße aus 東京 👩‍👩‍👧‍👦' };
const plain = { model, max_tokens: 1_000, system: 'Be brief.', messages: [user] };
const text = answerFor([{ role: 'system', content: 'Be brief.' }, user]);
const tools = [{ name: 'get_weather', input_schema: { type: 'object' } }];

type Event = { type: string; [key: string]: unknown };
type Block = {
  type: string;
  text?: string;
  thinking?: string;
  signature?: string;
  input?: unknown;
  [key: string]: unknown;
};
type Message = { content: Block[]; stop_reason: string; usage: Record<string, number>; [key: string]: unknown };

function post(server: ModelServer, body: object, headers: Record<string, string> = {}, path = ''): Promise<Response> {
  return fetch(`${server.url}/messages${path}`, { method: 'POST', body: JSON.stringify(body), headers });
}

async function whole(server: ModelServer, body: object): Promise<Message> {
  return (await (await post(server, body)).json()) as Message;
}

/** The events of a stream. Throws if an event's name is not its type. */
async function eventsOf(server: ModelServer, body: object): Promise<Event[]> {
  const reply = await (await post(server, { ...body, stream: true })).text();
  return reply.split('\n\n').flatMap((event) => {
    if (event === '') return [];
    const [, name, data] = /^event: (.*)\ndata: (.*)$/.exec(event) ?? [];
    const parsed = JSON.parse(data ?? '') as Event;
    if (parsed.type !== name) throw new Error(`${name} is not ${parsed.type}`);
    return [parsed];
  });
}

/** The message that a client builds from the events. */
async function assembled(server: ModelServer, body: object): Promise<Message> {
  const events = await eventsOf(server, body);
  let message = {} as Message;
  for (const event of events) {
    const { index, delta, usage } = event as unknown as { index: number; delta: Record<string, string>; usage: object };
    const block = message.content?.[index];
    if (event.type === 'message_start') message = event.message as Message;
    if (event.type === 'content_block_start') message.content[index] = { ...(event.content_block as Block), json: '' };
    if (event.type === 'message_delta') message = { ...message, ...delta, usage: { ...message.usage, ...usage } };
    if (event.type !== 'content_block_delta' || block === undefined) continue;
    const { type, partial_json: json, ...added } = delta;
    if (json !== undefined) block.json += json;
    for (const [name, piece] of Object.entries(added)) block[name] = `${block[name]}${piece}`;
  }
  for (const block of message.content) {
    if (block.json !== '') block.input = JSON.parse(String(block.json));
    delete block.json;
  }
  return message;
}

test('answers the same message whole and streamed, and counts its tokens', async (t) => {
  await using server = await startModelServer({ name: 'onprem-a' });
  const message = await whole(server, plain);
  const [inputTokens, outputTokens] = [promptTokensOf(messagesOfAnthropic(plain)), pieces(text).length];
  t.regex(String(message.id), /^msg_/);
  t.like(message, { type: 'message', role: 'assistant', model, stop_reason: 'end_turn', stop_sequence: null });
  t.deepEqual(message.content, [{ type: 'text', text }]);
  t.deepEqual(message.usage, {
    input_tokens: inputTokens,
    output_tokens: outputTokens,
    cache_creation_input_tokens: 0,
    cache_read_input_tokens: 0,
  });
  t.deepEqual({ ...(await assembled(server, plain)), id: '' }, { ...message, id: '' });
  const counted = { promptTokens: inputTokens, completionTokens: outputTokens, state: 'completed' as const };
  t.like(server.calls()[0], { path: '/v1/messages', stream: false, chunksSent: 1, ...counted });
  t.like(server.calls()[1], { stream: true, chunksSent: outputTokens, ...counted });
});

test('streams its events in order', async (t) => {
  await using server = await startModelServer({ name: 'onprem-a' });
  const asked = { ...plain, messages: [{ role: 'user', content: 'think aloud' }] };
  const types = (await eventsOf(server, asked)).map(({ type }) => type);
  const block = ['content_block_start', 'content_block_delta', 'content_block_stop'];
  t.deepEqual(
    types.filter((type, index) => type !== types[index - 1]),
    ['message_start', 'ping', ...block, ...block, 'message_delta', 'message_stop'],
  );
});

test('thinks first, refuses with text, and stops at max_tokens', async (t) => {
  await using server = await startModelServer({ name: 'onprem-a' });
  for (const [content, max_tokens] of [
    ['think aloud', 1_000],
    ['refuse to answer', 1_000],
    ['repeat 20', 1_000],
    ['think aloud', 12],
    ['think aloud', 3],
  ] as const) {
    const request = { ...plain, messages: [{ role: 'user' as const, content }], max_tokens };
    const expected = answerMessages(request);
    const message = await whole(server, request);
    t.deepEqual(
      message.content.map(({ type, text, thinking }) => [type, text ?? thinking]),
      expected.parts.map(({ kind, tokens }) => [kind === 'reasoning' ? 'thinking' : 'text', tokens.join('')]),
    );
    t.is(message.stop_reason, expected.stopReason);
    t.is(message.usage.output_tokens, expected.completionTokens);
    t.deepEqual({ ...(await assembled(server, request)), id: '' }, { ...message, id: '' });
  }
});

test('calls the tool that the last user text names, and quotes its result', async (t) => {
  await using server = await startModelServer({ name: 'onprem-a' });
  const question = { role: 'user' as const, content: [{ type: 'text' as const, text: 'Please call get_weather' }] };
  const request = { ...plain, messages: [question], tools };
  const message = await whole(server, request);
  const input = JSON.parse(toolArgumentsFor(messagesOfAnthropic(request)));
  t.is(message.stop_reason, 'tool_use');
  t.is(message.content.length, 1);
  t.like(message.content[0], { type: 'tool_use', name: 'get_weather', input });
  t.regex(String(message.content[0]?.id), /^toolu_/);
  t.deepEqual({ ...(await assembled(server, request)), id: '' }, { ...message, id: '' });
  t.is((await whole(server, { ...request, tool_choice: { type: 'none' } })).stop_reason, 'end_turn');

  const result = {
    type: 'tool_result',
    tool_use_id: message.content[0]?.id,
    content: [{ type: 'text', text: '21 °C' }],
  };
  const turns = [question, { role: 'assistant', content: message.content }];
  for (const last of [[result], [result, { type: 'text', text: 'And now?' }]]) {
    const answer = await whole(server, { ...request, messages: [...turns, { role: 'user', content: last }] });
    t.true(answer.content[0]?.text?.startsWith('The tool says: 21 °C.'));
  }
});

test('does a task step by step, each after the result of the one before', async (t) => {
  await using server = await startModelServer({ name: 'a' });
  const task = 'call get_weather with {"city":"Bonn"} then call get_weather with {"city":"Köln"}';
  const messages: object[] = [{ role: 'user', content: task }];
  for (const city of ['Bonn', 'Köln']) {
    const { content, stop_reason } = await whole(server, { model, max_tokens: 1_000, tools, messages });
    t.is(stop_reason, 'tool_use');
    t.like(content, [{ type: 'tool_use', name: 'get_weather', input: { city } }]);
    const result = { type: 'tool_result', tool_use_id: content[0]?.id, content: 'sunny' };
    messages.push({ role: 'assistant', content }, { role: 'user', content: [result] });
  }
  const last = await whole(server, { model, max_tokens: 1_000, tools, messages });
  t.is(last.stop_reason, 'end_turn');
  t.regex(last.content[0]?.text ?? '', /^The tool says: sunny\./);
});

test('counts tokens, unless set not to', async (t) => {
  await using server = await startModelServer({ name: 'onprem-a' });
  const reply = await post(server, { model, messages: [user] }, {}, '/count_tokens?beta=true');
  t.deepEqual(await reply.json(), { input_tokens: countedTokensOf({ messages: [user] }) });
  t.like(server.calls()[0], { path: '/v1/messages/count_tokens', promptTokens: 0, completionTokens: 0 });
  await using without = await startModelServer({ name: 'onprem-b', countTokens: false });
  t.is((await post(without, { model, messages: [user] }, {}, '/count_tokens')).status, 404);
});

test('accepts both forms of a key, and records the headers of the format', async (t) => {
  await using server = await startModelServer({ name: 'cloud', apiKey: 'right' });
  const own = { 'anthropic-version': '2023-06-01', 'anthropic-beta': 'a,b' };
  t.is((await post(server, plain, { authorization: 'Bearer right' })).status, 200);
  t.is((await post(server, plain, { 'x-api-key': 'right', ...own })).status, 200);
  t.deepEqual(server.calls().at(-1)?.ownHeaders, own);
  for (const headers of [{}, { 'x-api-key': 'wrong' }, { authorization: 'right' }]) {
    const reply = await post(server, plain, headers);
    t.is(reply.status, 401);
    t.like(await reply.json(), { type: 'error', error: { type: 'authentication_error' } });
  }
  const chat = { method: 'POST', body: '{}', headers: { 'x-api-key': 'right' } };
  t.is((await fetch(`${server.url}/chat/completions`, chat)).status, 401);
});

test('refuses an invalid request in its own shape', async (t) => {
  await using server = await startModelServer({ name: 'onprem-a' });
  const { max_tokens: _, ...unlimited } = plain;
  for (const bad of [unlimited, { ...plain, messages: [] }, { ...plain, messages: [{ role: 'tool', content: 'x' }] }]) {
    const reply = await post(server, bad);
    t.is(reply.status, 400);
    t.like(await reply.json(), { type: 'error', error: { type: 'invalid_request_error' } });
  }
});
