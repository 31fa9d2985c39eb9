import test from 'ava';
import type OpenAI from 'openai';
import { openScripted } from '../../support/endpoints/open-scripted.ts';
import { chunk, type ScriptedAnswer, saidBy, usageOf } from '../../support/endpoints/scripted-backend.ts';

const encoded = 'iVBORw0KGgoA'.repeat(80_000);
const images = [{ type: 'image_url', image_url: { url: `data:image/png;base64,${encoded}` } }];
const reasoning_details = [{ type: 'reasoning.encrypted', data: 'QUJD'.repeat(20_000), index: 0 }];
const withMedia = (media: object): ScriptedAnswer => ({
  events: [
    chunk({ role: 'assistant', content: 'Here', ...media }),
    chunk({ content: ' it is.' }, 'stop'),
    { ...chunk({}), choices: [], ...usageOf(7, 1_300) },
    '[DONE]',
  ],
});
const typed = (type?: string) => (_asked: object, _text: string, path: string) => ({
  headers: type === undefined ? {} : { 'content-type': type },
  events: saidBy(path),
});
const contextTokens = 8_192;
const vector = [0.5, -0.25, 0.125, 1, 0, 3];

const { account, asked } = openScripted(
  test,
  {
    'one-limit': (body, _text, path) => {
      const isBoth = body.max_tokens !== undefined && body.max_completion_tokens !== undefined;
      const message = "Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported.";
      return isBoth
        ? { status: 400, body: { error: { message, type: 'invalid_request_error' } } }
        : { events: saidBy(path) };
    },
    // Its tokens have four characters.
    'context-8k': (body, _text, path) => {
      const prompt = Math.ceil(JSON.stringify(body.messages).length / 4);
      const limit = Number(body.max_completion_tokens ?? body.max_tokens);
      if (prompt + limit <= contextTokens) return { events: saidBy(path) };
      const message = `'max_tokens' or 'max_completion_tokens' is too large: ${limit}. This model's maximum context length is ${contextTokens} tokens and your request has ${prompt} input tokens.`;
      return { status: 400, body: { error: { message, type: 'BadRequestError', param: null, code: 400 } } };
    },
    json: typed('application/json'),
    text: typed('text/plain'),
    untyped: typed(),
    image: () => withMedia({ images }),
    encrypted: () => withMedia({ reasoning_details }),
    vectors: () => ({
      body: {
        object: 'list',
        model: 'm',
        data: [{ object: 'embedding', index: 0, embedding: vector }],
        usage: { prompt_tokens: 2, total_tokens: 2 },
      },
    }),
    'empty-reason': () => ({
      events: [
        chunk({ role: 'assistant', content: 'Hi' }, ''),
        chunk({ content: ' there' }, ''),
        chunk({}, 'stop'),
        { ...chunk({}), choices: [], ...usageOf(7, 2) },
        '[DONE]',
      ],
    }),
  },
  {
    models: Object.fromEntries(
      ['one-limit', 'context-8k', 'json', 'text', 'untyped', 'image', 'encrypted', 'vectors', 'empty-reason'].map(
        (name) => [name, [name]],
      ),
    ),
  },
);

const messages = [{ role: 'user' as const, content: 'Hello' }];
type Answer = OpenAI.ChatCompletion;

test('a server that accepts one name of the limit gets the one that the client used, and remembers nothing against it', async (t) => {
  const { openai, assertCharged } = await account();
  for (const limits of [
    {},
    { max_tokens: 9 },
    { max_completion_tokens: 9 },
    { max_tokens: 9, max_completion_tokens: 9 },
  ])
    t.is(
      (await openai.chat.completions.create({ model: 'one-limit', messages, ...limits })).choices[0]?.message.content,
      'Hi there',
    );
  const sent = asked('one-limit').map(({ max_tokens, max_completion_tokens }) => [max_tokens, max_completion_tokens]);
  t.deepEqual(sent.slice(0, 4), [
    [4_096, undefined],
    [9, undefined],
    [undefined, 9],
    [9, 9],
  ]);
  t.is(sent.length, 5, 'the last one was asked once more, with one name');
  await assertCharged(t, 4, { promptTokens: 28, completionTokens: 8 });
});

test('a long prompt without a limit is answered with what its context has left', async (t) => {
  const { openai, assertCharged } = await account();
  const prompt = [{ role: 'user' as const, content: 'four'.repeat(5_250) }];
  for (const stream of [false, true]) {
    const answer = await openai.chat.completions.create({ model: 'context-8k', messages: prompt, stream });
    const all = stream
      ? await Array.fromAsync(answer as AsyncIterable<OpenAI.ChatCompletionChunk>)
      : [answer as Answer];
    t.true(all.length > 0);
  }
  const limits = asked('context-8k').map(({ max_tokens }) => Number(max_tokens));
  t.is(limits[0], 4_096);
  const left = limits.at(-1) ?? 0;
  t.true(left > 2_500 && left + 5_250 <= contextTokens, String(limits));
  await assertCharged(t, 2, { promptTokens: 14, completionTokens: 4 });
});

for (const model of ['json', 'text', 'untyped']) {
  test(`a stream of another media type is a stream, whole and streamed: ${model}`, async (t) => {
    const { openai, anthropic, assertCharged } = await account();
    const chat = { model, messages };
    t.is((await openai.chat.completions.create(chat)).choices[0]?.message.content, 'Hi there');
    const streamed = await openai.chat.completions.stream(chat).finalChatCompletion();
    t.is(streamed.choices[0]?.message.content, 'Hi there');
    const response = { model, input: 'Hello' };
    t.is((await openai.responses.create(response)).output_text, 'Hi there');
    t.is((await openai.responses.stream(response).finalResponse()).output_text, 'Hi there');
    const message = { model, messages, max_tokens: 50 };
    const whole = await anthropic.messages.create(message);
    t.like(whole.content[0], { type: 'text', text: 'Hi there' });
    t.is(await anthropic.messages.stream(message).finalText(), 'Hi there');
    await assertCharged(t, 6, { promptTokens: 42, completionTokens: 12 });
  });
}

for (const [model, media] of Object.entries({ image: { images }, encrypted: { reasoning_details } })) {
  test(`what is no text arrives whole, and is charged as it was reported: ${model}`, async (t) => {
    const { openai, assertCharged } = await account();
    const whole = await openai.chat.completions.create({ model, messages });
    t.is(whole.choices[0]?.finish_reason, 'stop');
    t.like(whole.choices[0]?.message, { content: 'Here it is.', ...media });
    const chunks = await Array.fromAsync(await openai.chat.completions.create({ model, messages, stream: true }));
    t.like(chunks[0]?.choices[0]?.delta, media);
    t.is(chunks.at(-1)?.choices[0]?.finish_reason, 'stop');
    await assertCharged(t, 2, { promptTokens: 14, completionTokens: 2_600 });
  });
}

test('vectors are numbers where the client asked for bytes: its package reads them', async (t) => {
  const { openai } = await account();
  const { data } = await openai.embeddings.create({ model: 'vectors', input: 'Hello' }); // asks for base64
  t.deepEqual(data[0]?.embedding, vector);
});

test('an empty finish_reason is null, and helpers of clients read the answer', async (t) => {
  const { openai, post } = await account();
  const text = await (await post('/v1/chat/completions', { model: 'empty-reason', messages, stream: true })).text();
  t.false(text.includes('"finish_reason":""'));
  t.is(text.split('"finish_reason":null').length - 1, 2);
  const whole = await openai.chat.completions.stream({ model: 'empty-reason', messages }).finalChatCompletion();
  t.like(whole.choices[0], { finish_reason: 'stop' });
});
