import { setTimeout as sleep } from 'node:timers/promises';
import test from 'ava';
import OpenAI from 'openai';
import { oddPieces } from '../../stack/model-server/bytes.ts';
import { answerFor, pieces, promptTokensOf, startModelServer, toolArgumentsFor } from '../../stack/model-server.ts';

const system = { role: 'system' as const, content: 'Be brief.' };
const user = { role: 'user' as const, content: 'Grüße aus 東京 👩‍👩‍👧‍👦' };
const messages = [system, user];
const text = answerFor(messages);
const model = 'small-chat';

function clientOf(server: { url: string }, apiKey = 'any'): OpenAI {
  return new OpenAI({ baseURL: server.url, apiKey, maxRetries: 0 });
}

async function collect<T>(items: AsyncIterable<T> | Iterable<T>): Promise<T[]> {
  const collected: T[] = [];
  for await (const item of items) collected.push(item);
  return collected;
}

test('cuts every text into pieces of up to four characters that join to the same text', (t) => {
  for (const sample of ['', ' ', 'a', ' a b  ', 'abcdefghi', '\n\nx\n', text, '👩‍👩‍👧‍👦'.repeat(9)]) {
    t.is(pieces(sample).join(''), sample);
    t.true(pieces(sample).every((piece) => [...piece.trim()].length <= 4));
  }
  t.deepEqual(pieces(' to be  continued '), [' to', ' be', '  cont', 'inue', 'd', ' ']);
});

test('gives the same answer to the same messages, and another text to any others', (t) => {
  t.is(answerFor([{ ...system }, { ...user }]), text);
  t.true(text.startsWith('You said: Grüße aus 東京 👩‍👩‍👧‍👦.'));
  const others = [
    [user],
    [user, system],
    [{ ...system, content: 'Be brief!' }, user],
    [{ ...system, role: 'user' }, user],
  ];
  const texts = [text, answerFor(messages, 1), ...others.map((other) => answerFor(other))];
  t.is(new Set(texts).size, texts.length);
  t.is(answerFor([{ role: 'user', content: 'repeat 20' }]).split('\n').length, 20);
  const parts = [
    { type: 'text', text: 'What is' },
    { type: 'image_url', image_url: { url: 'data:,' } },
    { type: 'text', text: 'this?' },
  ];
  t.true(answerFor([{ role: 'user', content: parts }]).startsWith('You said: What is\n\nthis?.'));
});

test('cuts bytes inside characters and inside events, and loses none', (t) => {
  const bytes = Buffer.from(`data: ${text}\n\n`.repeat(5));
  const cut = oddPieces(bytes);
  t.deepEqual(Buffer.concat(cut), bytes);
  t.true(cut.some((piece) => ((piece[0] ?? 0) & 0xc0) === 0x80));
  t.true(cut.some((piece) => !piece.includes('\n')));
  t.is(oddPieces(Buffer.from('data: [DONE]\n\n')).length, 2);
  t.deepEqual(oddPieces(Buffer.alloc(0)), []);
});

test('gives the official SDK the same text complete and streamed, byte for byte', async (t) => {
  await using server = await startModelServer({ name: 'onprem-a' });
  const client = clientOf(server);
  const whole = await client.chat.completions.create({ model, messages });
  t.is(whole.choices[0]?.message.content, text);
  t.is(whole.choices[0]?.finish_reason, 'stop');
  t.like(whole, { model, object: 'chat.completion', system_fingerprint: 'onprem-a' });
  const tokens = { prompt_tokens: promptTokensOf(messages), completion_tokens: pieces(text).length };
  t.like(whole.usage, { ...tokens, total_tokens: tokens.prompt_tokens + tokens.completion_tokens });

  let streamed = '';
  let chunks = 0;
  for await (const chunk of await client.chat.completions.create({ model, messages, stream: true })) {
    t.is(chunk.choices.length, 1);
    streamed += chunk.choices[0]?.delta.content ?? '';
    if (chunk.choices[0]?.delta.content) chunks += 1;
  }
  t.is(streamed, text);
  t.is(chunks, pieces(text).length);

  const [first, second] = server.calls();
  t.like(first, { state: 'completed', stream: false, model, chunksSent: 1, promptTokens: tokens.prompt_tokens });
  t.like(second, { state: 'completed', stream: true, chunksSent: chunks, completionTokens: chunks });
  t.deepEqual(second?.body, { model, messages, stream: true });
  t.deepEqual(second?.headers, { contentType: 'application/json', hasAuthorization: true });
});

test("counts a model's concurrent calls, without those that ended or were aborted", async (t) => {
  await using server = await startModelServer({ name: 'onprem-a' });
  const url = `${server.url}/chat/completions`;
  const body = JSON.stringify({ model, messages });
  server.fail({ hang: true }, model);
  const leaving = new AbortController();
  const hanging = fetch(url, { method: 'POST', body, signal: leaving.signal });
  await server.waitForCall(({ id }) => id === 1);
  server.heal();
  for (let index = 0; index < 2; index += 1) await (await fetch(url, { method: 'POST', body })).text();
  await (await fetch(url, { method: 'POST', body: JSON.stringify({ model: 'another', messages }) })).text();
  leaving.abort();
  await t.throwsAsync(hanging);
  await server.waitForCall(({ id, state }) => id === 1 && state === 'aborted');
  await (await fetch(url, { method: 'POST', body })).text();
  t.deepEqual(
    server.calls().map(({ atOnce }) => atOnce),
    [1, 2, 2, 1, 1],
  );
});

test('writes a stream in pieces that begin inside a character, unless set not to', async (t) => {
  for (const splitBytes of [true, false]) {
    await using server = await startModelServer({ name: 'onprem-a', splitBytes });
    const body = JSON.stringify({ model, messages, stream: true });
    const reply = await fetch(`${server.url}/chat/completions`, { method: 'POST', body });
    const parts = await collect(reply.body ?? []);
    t.is(
      parts.some((part) => ((part[0] ?? 0) & 0xc0) === 0x80),
      splitBytes,
    );
    t.regex(Buffer.concat(parts).toString(), /data: \[DONE\]\n\n$/);
  }
});

test('streams usage only on request, after the finish and without a choice', async (t) => {
  await using server = await startModelServer({ name: 'onprem-a' });
  const request = { model, messages, stream: true as const, stream_options: { include_usage: true } };
  const chunks = await collect(await clientOf(server).chat.completions.create(request));
  const last = chunks.at(-1);
  t.deepEqual(last?.choices, []);
  t.is(last?.usage?.completion_tokens, pieces(text).length);
  t.is(chunks.at(-2)?.choices[0]?.finish_reason, 'stop');
  t.is(chunks.filter(({ usage }) => usage).length, 1);
  t.is(chunks[0]?.choices[0]?.delta.role, 'assistant');
});

test('answers n choices with a text each, and counts all of them', async (t) => {
  await using server = await startModelServer({ name: 'onprem-a' });
  const request = { model, messages, n: 3 };
  const expected = [0, 1, 2].map((choice) => answerFor(messages, choice));
  const whole = await clientOf(server).chat.completions.create(request);
  t.deepEqual(
    whole.choices.map(({ message }) => message.content),
    expected,
  );
  t.is(whole.usage?.completion_tokens, expected.flatMap(pieces).length);
  const streamed = await clientOf(server).chat.completions.stream(request).finalChatCompletion();
  t.deepEqual(
    streamed.choices.map(({ message }) => message.content),
    expected,
  );
});

test('stops at max_tokens or max_completion_tokens, whichever is smaller, and reports it', async (t) => {
  await using server = await startModelServer({ name: 'onprem-a' });
  const client = clientOf(server);
  const smaller = { max_tokens: 5, max_completion_tokens: 3 };
  for (const limit of [{ max_tokens: 3 }, { max_completion_tokens: 3 }, smaller]) {
    const whole = await client.chat.completions.create({ model, messages, ...limit });
    t.is(whole.choices[0]?.message.content, pieces(text).slice(0, 3).join(''));
    t.is(whole.choices[0]?.finish_reason, 'length');
    t.is(whole.usage?.completion_tokens, 3);
  }
  const enough = { model, messages, max_tokens: pieces(text).length };
  t.is((await client.chat.completions.create(enough)).choices[0]?.finish_reason, 'stop');
});

test('calls the tool that the user names, complete and streamed', async (t) => {
  await using server = await startModelServer({ name: 'onprem-a' });
  const asked = [{ role: 'user' as const, content: 'Please call get_weather for 東京' }];
  const tools = ['get_weather', 'get_time'].map((name) => ({ type: 'function' as const, function: { name } }));
  const request = { model, messages: asked, tools };
  const whole = await clientOf(server).chat.completions.create(request);
  const called = { name: 'get_weather', arguments: toolArgumentsFor(asked) };
  t.like(whole.choices[0], { finish_reason: 'tool_calls', message: { content: null } });
  t.like(whole.choices[0]?.message.tool_calls, [{ type: 'function', function: called }]);
  t.is(whole.choices[0]?.message.tool_calls?.length, 1);
  t.is(whole.usage?.completion_tokens, pieces(called.arguments).length);
  const streamed = await clientOf(server).chat.completions.stream(request).finalChatCompletion();
  t.like(streamed.choices[0]?.message.tool_calls, [{ type: 'function', function: called }]);

  const none = await clientOf(server).chat.completions.create({ ...request, tool_choice: 'none' });
  t.is(none.choices[0]?.message.content, answerFor(asked));
});

test('refuses an invalid chat completion, a wrong key and an unknown path, in OpenAI’s shape', async (t) => {
  await using server = await startModelServer({ name: 'cloud', apiKey: 'right' });
  const good = { model, messages };
  await t.throwsAsync(clientOf(server, 'wrong').chat.completions.create(good), {
    instanceOf: OpenAI.AuthenticationError,
  });
  await t.throwsAsync(clientOf(server, 'wrong').models.list(), { instanceOf: OpenAI.AuthenticationError });
  const client = clientOf(server, 'right');
  await t.notThrowsAsync(client.chat.completions.create(good));
  for (const bad of [{ model }, { model, messages: [] }, { model, messages: 'Hi' }, { ...good, max_tokens: 0 }]) {
    const error = await t.throwsAsync(client.post('/chat/completions', { body: bad }), {
      instanceOf: OpenAI.BadRequestError,
    });
    t.like(error?.error, { type: 'invalid_request_error', param: 'max_tokens' in bad ? 'max_tokens' : 'messages' });
  }
  await t.throwsAsync(client.get('/nothing'), { instanceOf: OpenAI.NotFoundError });
  t.deepEqual(
    server.calls().map(({ state }) => state),
    ['failed', 'completed', 'failed', 'failed', 'failed', 'failed'],
  );
});

test('lists its models and its health', async (t) => {
  await using server = await startModelServer({ name: 'onprem-a', models: ['small-chat', 'large-chat'] });
  const models = await collect(await clientOf(server).models.list());
  t.deepEqual(
    models.map(({ id }) => id),
    ['small-chat', 'large-chat'],
  );
  t.is((await fetch(new URL('/health', server.url))).status, 200);
});

test('keeps its pace, and notices that a client disconnects', async (t) => {
  await using server = await startModelServer({ name: 'onprem-a', firstTokenMs: 60, tokensPerSecond: 50 });
  const client = clientOf(server);
  const startedAt = performance.now();
  await client.chat.completions.create({ model, messages, max_tokens: 4 });
  t.true(performance.now() - startedAt >= 60 + 4 * 20 - 5);

  const left = new AbortController();
  const request = { model, messages, stream: true as const };
  const stream = await client.chat.completions.create(request, { signal: left.signal });
  for await (const chunk of stream) if (chunk.choices[0]?.delta.content) left.abort();
  const call = await server.waitForCall(({ state }) => state === 'aborted');
  t.true(call.chunksSent >= 1 && call.chunksSent < pieces(text).length);
  await sleep(60);
  t.is(server.calls().at(-1)?.chunksSent, call.chunksSent);
});

test('keeps no more calls than configured', async (t) => {
  await using server = await startModelServer({ name: 'onprem-a', callsKept: 2 });
  for (const content of ['one', 'two', 'three']) {
    await clientOf(server).chat.completions.create({ model, messages: [{ role: 'user', content }] });
  }
  t.deepEqual(
    server.calls().map(({ id }) => id),
    [2, 3],
  );
  await t.throwsAsync(
    server.waitForCall(({ id }) => id === 1, 20),
    { message: /no such call/ },
  );
});
