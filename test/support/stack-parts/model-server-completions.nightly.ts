import test from 'ava';
import OpenAI from 'openai';
import { answerCompletion, answerFor, pieces, startModelServer } from '../../stack/model-server.ts';

const model = 'small-text';
const prompt = 'Grüße aus 東京';
const textFor = (content: string, choice = 0) => answerFor([{ role: 'user', content }], choice);
const text = textFor(prompt);

function clientOf(server: { url: string }, apiKey = 'any'): OpenAI {
  return new OpenAI({ baseURL: server.url, apiKey, maxRetries: 0 });
}

test('completes a prompt with the same text whole and streamed, and counts its tokens', async (t) => {
  await using server = await startModelServer({ name: 'onprem-a' });
  const client = clientOf(server);
  const whole = await client.completions.create({ model, prompt });
  t.like(whole, { model, object: 'text_completion', system_fingerprint: 'onprem-a' });
  t.deepEqual(whole.choices, [{ index: 0, text, logprobs: null, finish_reason: 'stop' }]);
  const tokens = { prompt_tokens: pieces(prompt).length, completion_tokens: pieces(text).length };
  t.deepEqual(whole.usage, { ...tokens, total_tokens: tokens.prompt_tokens + tokens.completion_tokens });

  let streamed = '';
  for await (const event of await client.completions.create({ model, prompt, stream: true })) {
    t.is(event.usage, undefined);
    streamed += event.choices[0]?.text ?? '';
  }
  t.is(streamed, text);
  const [first, second] = server.calls();
  const counted = { promptTokens: tokens.prompt_tokens, completionTokens: tokens.completion_tokens };
  t.like(first, { path: '/v1/completions', state: 'completed', stream: false, chunksSent: 1, ...counted });
  t.like(second, { state: 'completed', stream: true, chunksSent: tokens.completion_tokens, ...counted });
});

test('completes each prompt n times, with an index for each choice', async (t) => {
  await using server = await startModelServer({ name: 'onprem-a' });
  const request = { model, prompt: ['one', 'two'], n: 2, best_of: 3 };
  const expected = ['one', 'two'].flatMap((content) => [textFor(content), textFor(content, 1)]);
  const whole = await clientOf(server).completions.create(request);
  t.deepEqual(
    whole.choices.map(({ index, text }) => [index, text]),
    expected.map((text, index) => [index, text]),
  );
  t.is(whole.usage?.prompt_tokens, 2);
  t.is(whole.usage?.completion_tokens, expected.flatMap(pieces).length);
  const streamed = ['', '', '', ''];
  for await (const event of await clientOf(server).completions.create({ ...request, stream: true })) {
    for (const { index, text } of event.choices) streamed[index] += text;
  }
  t.deepEqual(streamed, expected);
});

test('reads a prompt of token ids, each as one token', async (t) => {
  await using server = await startModelServer({ name: 'onprem-a' });
  const one = await clientOf(server).completions.create({ model, prompt: [12345, 678], echo: true });
  t.is(one.choices[0]?.text, `12345 678${textFor('12345 678')}`);
  t.is(one.usage?.prompt_tokens, 2);
  const several = await clientOf(server).completions.create({ model, prompt: [[1, 2, 3], [4]] });
  t.deepEqual(
    several.choices.map(({ text }) => text),
    [textFor('1 2 3'), textFor('4')],
  );
  t.is(several.usage?.prompt_tokens, 4);
});

test('stops at max_tokens, repeats the prompt and gives probabilities on request, whole and streamed', async (t) => {
  await using server = await startModelServer({ name: 'onprem-a' });
  const request = { model, prompt, max_tokens: 2, echo: true, logprobs: 1 };
  const whole = await clientOf(server).completions.create(request);
  const tokens = [...pieces(prompt), ...pieces(text).slice(0, 2)];
  t.like(whole.choices[0], { text: tokens.join(''), finish_reason: 'length' });
  t.like(whole.choices[0]?.logprobs, { tokens });
  t.is(whole.choices[0]?.logprobs?.token_logprobs?.length, tokens.length);
  t.deepEqual(answerCompletion(request).completionTokens, 2);

  const streaming = { ...request, stream: true as const, stream_options: { include_usage: true } };
  const events = [];
  for await (const event of await clientOf(server).completions.create(streaming)) events.push(event);
  const logprobs = events.flatMap(({ choices }) => choices.map((choice) => choice.logprobs));
  t.deepEqual(
    logprobs.flatMap((one) => one?.text_offset ?? []),
    whole.choices[0]?.logprobs?.text_offset,
  );
  t.is(events.at(-2)?.choices[0]?.finish_reason, 'length');
  t.deepEqual(events.at(-1)?.choices, []);
  t.deepEqual(events.at(-1)?.usage, whole.usage);
  t.is(server.calls().at(-1)?.completionTokens, 2);

  const none = await clientOf(server).completions.create({ model, prompt, max_tokens: 0 });
  t.like(none.choices[0], { text: '', finish_reason: 'length' });
});

test('refuses an invalid completion and a wrong key', async (t) => {
  await using server = await startModelServer({ name: 'cloud', apiKey: 'right' });
  await t.throwsAsync(clientOf(server, 'wrong').completions.create({ model, prompt }), {
    instanceOf: OpenAI.AuthenticationError,
  });
  for (const bad of [{ prompt: [] }, { prompt: 5 }, { prompt, n: 0 }, { prompt, n: 3, best_of: 2 }, {}]) {
    const answer = clientOf(server, 'right').post('/completions', { body: { model, ...bad } });
    await t.throwsAsync(answer, { instanceOf: OpenAI.BadRequestError }, JSON.stringify(bad));
  }
});
