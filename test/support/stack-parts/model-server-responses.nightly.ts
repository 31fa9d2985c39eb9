import test from 'ava';
import OpenAI from 'openai';
import type { ResponseStreamEvent } from 'openai/resources/responses/responses';
import {
  answerFor,
  answerResponse,
  messagesOfResponse,
  pieces,
  promptTokensOf,
  startModelServer,
  toolArgumentsFor,
} from '../../stack/model-server.ts';

const model = 'small-chat';
const instructions = 'Be brief.';
const input = 'Grüße aus 東京 👩‍👩‍👧‍👦';
const messages = [
  { role: 'system', content: instructions },
  { role: 'user', content: input },
];
const text = answerFor(messages);
const tool = { type: 'function' as const, name: 'get_weather', parameters: { type: 'object' }, strict: null };

function clientOf(server: { url: string }): OpenAI {
  return new OpenAI({ baseURL: server.url, apiKey: 'any', maxRetries: 0 });
}

async function typesOf(events: AsyncIterable<ResponseStreamEvent>): Promise<string[]> {
  const types: string[] = [];
  let sequence = 0;
  for await (const { type, sequence_number: number } of events) {
    if (number !== sequence) throw new Error(`${type} has number ${number}, not ${sequence}`);
    sequence += 1;
    if (types.at(-1) !== type) types.push(type);
  }
  return types;
}

test('gives the official SDK the same text whole and streamed, and counts its tokens', async (t) => {
  await using server = await startModelServer({ name: 'onprem-a' });
  const client = clientOf(server);
  const whole = await client.responses.create({ model, instructions, input });
  t.is(whole.output_text, text);
  t.like(whole, {
    object: 'response',
    model,
    status: 'completed',
    instructions,
    error: null,
    incomplete_details: null,
  });
  const [inputTokens, outputTokens] = [promptTokensOf(messages), pieces(text).length];
  t.deepEqual(whole.usage, {
    input_tokens: inputTokens,
    input_tokens_details: { cached_tokens: 0, cache_write_tokens: 0 },
    output_tokens: outputTokens,
    output_tokens_details: { reasoning_tokens: 0 },
    total_tokens: inputTokens + outputTokens,
  });
  const streamed = await client.responses.stream({ model, instructions, input }).finalResponse();
  t.is(streamed.output_text, text);
  t.deepEqual(streamed.usage, whole.usage);
  const counted = { promptTokens: inputTokens, completionTokens: outputTokens, state: 'completed' as const };
  t.like(server.calls()[0], { path: '/v1/responses', chunksSent: 1, stream: false, ...counted });
  t.like(server.calls()[1], { chunksSent: outputTokens, stream: true, ...counted });
});

test('streams its events in order, each with its number', async (t) => {
  await using server = await startModelServer({ name: 'onprem-a' });
  const stream = await clientOf(server).responses.create({ model, input, stream: true });
  t.deepEqual(await typesOf(stream), [
    'response.created',
    'response.in_progress',
    'response.output_item.added',
    'response.content_part.added',
    'response.output_text.delta',
    'response.output_text.done',
    'response.content_part.done',
    'response.output_item.done',
    'response.completed',
  ]);
  const body = JSON.stringify({ model, input, stream: true });
  const raw = await (await fetch(`${server.url}/responses`, { method: 'POST', body })).text();
  t.regex(raw, /^event: response\.created\ndata: \{"type":"response\.created","sequence_number":0,/);
  t.notRegex(raw, /\[DONE\]/);
});

test('reads messages of parts, and answers a digest that changes with each item', async (t) => {
  await using server = await startModelServer({ name: 'onprem-a' });
  const ask = (items: OpenAI.Responses.ResponseInput) => clientOf(server).responses.create({ model, input: items });
  const image = { type: 'input_image' as const, image_url: 'data:,', detail: 'auto' as const };
  const question = {
    type: 'message' as const,
    role: 'user' as const,
    content: [{ type: 'input_text' as const, text: 'What is' }, image, { type: 'input_text' as const, text: 'this?' }],
  };
  const first = await ask([question]);
  t.true(first.output_text.startsWith('You said: What is\n\nthis?.'));
  const again = await ask([{ role: 'assistant', content: 'Hello' }, question]);
  t.not(again.output_text, first.output_text);
  t.is(again.usage?.input_tokens, (first.usage?.input_tokens ?? 0) + pieces('Hello').length);
});

test('reasons first, refuses, and stops at the limit, whole and streamed', async (t) => {
  await using server = await startModelServer({ name: 'onprem-a' });
  const client = clientOf(server);
  for (const request of [
    { model, input: 'think aloud' },
    { model, input: 'refuse to answer' },
    { model, input: 'repeat 20' },
    { model, input: 'think aloud', max_output_tokens: 12 },
    { model, input: 'think aloud', max_output_tokens: 3 },
  ]) {
    const expected = answerResponse(request);
    const whole = await client.responses.create(request);
    const streamed = await client.responses.stream(request).finalResponse();
    for (const { output, usage, status, incomplete_details: details } of [whole, streamed]) {
      t.deepEqual(
        output.map(textOf),
        expected.parts.map(({ tokens }) => tokens.join('')),
      );
      t.is(usage?.output_tokens, expected.completionTokens);
      t.is(usage?.output_tokens_details.reasoning_tokens, expected.reasoningTokens);
      t.is(status, expected.incomplete ? 'incomplete' : 'completed');
      t.deepEqual(details, expected.incomplete ? { reason: 'max_output_tokens' } : null);
    }
    t.is(server.calls().at(-1)?.chunksSent, expected.completionTokens);
  }
  const thinking = await client.responses.create({ model, input: 'think aloud', stream: true });
  t.true((await typesOf(thinking)).includes('response.reasoning_text.delta'));
  const refusing = await client.responses.create({ model, input: 'refuse to answer', stream: true });
  t.true((await typesOf(refusing)).includes('response.refusal.done'));
  const cut = await client.responses.create({ model, input, max_output_tokens: 2, stream: true });
  t.is((await typesOf(cut)).at(-1), 'response.incomplete');
});

function textOf(item: OpenAI.Responses.ResponseOutputItem): string | undefined {
  if (item.type === 'reasoning') return item.content?.[0]?.text;
  const part = item.type === 'message' ? item.content[0] : undefined;
  return part?.type === 'refusal' ? part.refusal : part?.text;
}

test('calls the tool that the user names, and quotes its result', async (t) => {
  await using server = await startModelServer({ name: 'onprem-a' });
  const client = clientOf(server);
  const request = { model, input: 'Please call get_weather', tools: [tool] };
  const called = { name: 'get_weather', arguments: toolArgumentsFor(messagesOfResponse(request)) };
  const whole = await client.responses.create(request);
  t.is(whole.output.length, 1);
  t.like(whole.output[0], { type: 'function_call', status: 'completed', ...called });
  t.like(whole.tools[0], tool);
  t.like((await client.responses.stream(request).finalResponse()).output[0], called);
  const types = await typesOf(await client.responses.create({ ...request, stream: true }));
  t.true(types.includes('response.function_call_arguments.done'));

  const none = await client.responses.create({ ...request, tool_choice: 'none' });
  t.is(none.output_text, answerFor(messagesOfResponse(request)));

  const [call] = whole.output;
  if (call?.type !== 'function_call') return t.fail();
  const result = { type: 'function_call_output' as const, call_id: call.call_id, output: '21 °C' };
  const turns = [{ role: 'user' as const, content: request.input }, call, result];
  const second = await client.responses.create({ ...request, input: turns });
  t.true(second.output_text.startsWith('The tool says: 21 °C.'));
  const streamed = await client.responses.stream({ ...request, input: turns }).finalResponse();
  t.is(streamed.output_text, second.output_text);
});

test('refuses an invalid request', async (t) => {
  await using server = await startModelServer({ name: 'onprem-a' });
  const wrong = [{}, { input: [] }, { input: [{ type: 'unknown' }] }, { input, max_output_tokens: 0 }];
  for (const bad of wrong) {
    const answer = clientOf(server).post('/responses', { body: { model, ...bad } });
    await t.throwsAsync(answer, { instanceOf: OpenAI.BadRequestError }, JSON.stringify(bad));
  }
});
