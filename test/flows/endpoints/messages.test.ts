import type Anthropic from '@anthropic-ai/sdk';
import test from 'ava';
import { openAccount, sumOf } from '../../support/endpoints/open-account.ts';
import { predictedMessage as predicted } from '../../support/endpoints/predicted.ts';
import { everyEndpoint } from '../../support/every-endpoint.ts';
import { openSharedStack } from '../../support/shared-stack.ts';

const shared = openSharedStack(test, { models: everyEndpoint });
const model = 'everything';

type Asked = Pick<Anthropic.MessageCreateParams, 'messages' | 'max_tokens' | 'system' | 'tools'>;

const user = (content: string): Asked => ({ max_tokens: 1_000, messages: [{ role: 'user', content }] });
const textOf = ({ content }: Anthropic.Message) =>
  content.map((block) => (block.type === 'text' ? block.text : '')).join('');

test('a message has the text, the usage and the model, and is charged exactly: whole, streamed and accumulated', async (t) => {
  const { anthropic, assertCharged } = await openAccount(shared.stack(), 'messages-text');
  const asked = { ...user('Was heißt 東京 👩‍👩‍👧‍👦 ?'), system: 'Antworte höflich.' };
  const expected = predicted(asked);
  const whole = await anthropic.messages.create({ model, ...asked });
  const final = await anthropic.messages.stream({ model, ...asked }).finalMessage();
  for (const message of [whole, final]) {
    t.is(textOf(message), expected.text);
    t.like(message, { model, role: 'assistant', stop_reason: 'end_turn' });
    t.like(message.usage, { input_tokens: expected.promptTokens, output_tokens: expected.completionTokens });
  }
  const events = await Array.fromAsync(await anthropic.messages.create({ model, ...asked, stream: true }));
  const deltas = events.flatMap((event) => (event.type === 'content_block_delta' ? [event.delta] : []));
  t.is(deltas.map((delta) => (delta.type === 'text_delta' ? delta.text : '')).join(''), expected.text);
  t.is(events.at(-1)?.type, 'message_stop');
  await assertCharged(t, 3, sumOf(expected, expected, expected));
});

test('thinking passes with its signature, whole and streamed, and back to the backend', async (t) => {
  const { anthropic } = await openAccount(shared.stack(), 'messages-thinking');
  const asked = user('think aloud');
  const expected = predicted(asked);
  const messages = [
    await anthropic.messages.create({ model, ...asked, thinking: { type: 'enabled', budget_tokens: 1_024 } }),
    await anthropic.messages.stream({ model, ...asked }).finalMessage(),
  ];
  for (const message of messages) {
    const [thinking] = message.content;
    t.true(thinking?.type === 'thinking' && thinking.thinking === expected.reasoning && thinking.signature.length > 0);
    t.is(textOf(message), expected.text);
  }
  t.deepEqual(messages[0]?.content, messages[1]?.content);
  const history = { role: 'assistant' as const, content: messages[0]?.content ?? [] };
  const next = { ...asked, messages: [...asked.messages, history, ...user('And now?').messages] };
  t.is(textOf(await anthropic.messages.create({ model, ...next })), predicted(next).text);
});

const tools = [{ name: 'weather', input_schema: { type: 'object' as const, properties: {} } }];

test('a tool is called, and its result is answered in the next turn, whole and streamed', async (t) => {
  const { anthropic, assertCharged } = await openAccount(shared.stack(), 'messages-tools');
  const first = { ...user('Please call weather'), tools };
  const calling = predicted(first);
  const charged = [];
  for (const ask of [
    (asked: Asked) => anthropic.messages.create({ model, ...asked }),
    (asked: Asked) => anthropic.messages.stream({ model, ...asked }).finalMessage(),
  ]) {
    const { content, stop_reason } = await ask(first);
    const [call] = content;
    if (call?.type !== 'tool_use') return t.fail(JSON.stringify(content));
    t.is(stop_reason, 'tool_use');
    t.is(call.name, 'weather');
    t.deepEqual(call.input, JSON.parse(calling.call));
    const result = { type: 'tool_result' as const, tool_use_id: call.id, content: '{"sun":true}' };
    const second: Asked = {
      ...first,
      messages: [...first.messages, { role: 'assistant', content }, { role: 'user', content: [result] }],
    };
    const answering = predicted(second);
    const answer = await ask(second);
    t.is(textOf(answer), answering.text);
    t.true(textOf(answer).includes('{"sun":true}'));
    charged.push(calling, answering);
  }
  await assertCharged(t, 4, sumOf(...charged));
});

test('an answer that reaches its limit says so, whole and streamed', async (t) => {
  const { anthropic, assertCharged } = await openAccount(shared.stack(), 'messages-limit');
  const asked = { ...user('repeat 20 of this'), max_tokens: 7 };
  const expected = predicted(asked);
  for (const message of [
    await anthropic.messages.create({ model, ...asked }),
    await anthropic.messages.stream({ model, ...asked }).finalMessage(),
  ]) {
    t.like(message, { stop_reason: 'max_tokens', usage: { output_tokens: 7 } });
    t.is(textOf(message), expected.text);
  }
  await assertCharged(t, 2, sumOf(expected, expected));
});

test('the key may be in either header, with either version of the API, and its headers reach the backend', async (t) => {
  const stack = shared.stack();
  const { key, post, assertCharged } = await openAccount(stack, 'messages-headers');
  const marker = 'these headers are passed on';
  const asked = user(marker);
  const version = { 'anthropic-version': '2023-06-01', 'anthropic-beta': 'new-2027-01-01,output-128k-2025-02-19' };
  const headers: Record<string, string>[] = [
    { 'x-api-key': key, ...version },
    { authorization: `Bearer ${key}`, ...version },
    { 'api-key': key, authorization: `Bearer ${key}`, ...version },
  ];
  for (const each of headers) {
    for (const path of ['/v1/messages', '/v1/messages?beta=true']) {
      const response = await post(path, { model, ...asked, temperature: 1, top_k: 5, top_p: 1 }, each);
      const body = (await response.json()) as Anthropic.Message; // the service's own answer
      t.is(response.status, 200, JSON.stringify(body));
      t.is(textOf(body), predicted(asked).text);
      t.is(response.headers.get('request-id'), response.headers.get('x-request-id'));
      t.is(response.headers.get('x-svc-dropped'), 'anthropic-beta.new-2027-01-01');
    }
  }
  const calls = stack.modelServers
    .flatMap((server) => server.calls())
    .filter(({ body }) => JSON.stringify(body).includes(marker));
  t.is(calls.length, 6);
  for (const { ownHeaders, body } of calls) {
    t.deepEqual(ownHeaders, { ...version, 'anthropic-beta': 'output-128k-2025-02-19' });
    t.like(body, { temperature: 1, top_k: 5, top_p: 1, max_tokens: 1_000 });
  }
  await assertCharged(t, 6, sumOf(...Array(6).fill(predicted(asked))));
});
