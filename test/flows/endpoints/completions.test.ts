import test from 'ava';
import { openAccount, sumOf } from '../../support/endpoints/open-account.ts';
import { predictedCompletion as predicted } from '../../support/endpoints/predicted.ts';
import { everyEndpoint } from '../../support/every-endpoint.ts';
import { openSharedStack } from '../../support/shared-stack.ts';

const shared = openSharedStack(test, { models: everyEndpoint });
const model = 'everything';

test('a completion has the text, the usage and the model, and is charged exactly, below either base path', async (t) => {
  const account = await openAccount(shared.stack(), 'completions-whole');
  const prompt = 'Was heißt 東京 👩‍👩‍👧‍👦 ?';
  const expected = predicted({ prompt });
  for (const client of [account.openai, account.plain]) {
    const answer = await client.completions.create({ model, prompt });
    t.deepEqual(
      answer.choices.map(({ text, index, finish_reason }) => [text, index, finish_reason]),
      [[expected.texts[0], 0, 'stop']],
    );
    t.like(answer, { model, object: 'text_completion' });
    t.like(answer.usage, {
      prompt_tokens: expected.promptTokens,
      completion_tokens: expected.completionTokens,
      total_tokens: expected.promptTokens + expected.completionTokens,
    });
  }
  await account.assertCharged(t, 2, sumOf(expected, expected));
});

test('each prompt in each form gets its choices, whole and streamed, and all are charged', async (t) => {
  const account = await openAccount(shared.stack(), 'completions-prompts');
  // The stand-in has as many tokens for these texts as our tokenizer: of several prompts the larger count is charged.
  const prompts = ['Hi', ['Hi', 'Ho'], [5, 6, 7], [[5], [6, 7]]];
  const charged = [];
  for (const prompt of prompts) {
    const asked = { prompt, n: 2, max_tokens: 9 };
    const expected = predicted(asked);
    const whole = await account.openai.completions.create({ model, ...asked });
    t.deepEqual(
      whole.choices.map(({ text }) => text),
      expected.texts,
    );
    const options = { stream: true, stream_options: { include_usage: true } } as const;
    const chunks = await Array.fromAsync(await account.openai.completions.create({ model, ...asked, ...options }));
    const texts: string[] = [];
    for (const { index, text } of chunks.flatMap(({ choices }) => choices)) texts[index] = (texts[index] ?? '') + text;
    t.deepEqual(texts, expected.texts);
    t.deepEqual(chunks.at(-1)?.choices, []);
    t.deepEqual(chunks.at(-1)?.usage, whole.usage);
    charged.push(expected, expected);
  }
  await account.assertCharged(t, prompts.length * 2, sumOf(...charged));
});

test('a stream has no usage unless it is asked for, and ends with [DONE]', async (t) => {
  const account = await openAccount(shared.stack(), 'completions-stream');
  const expected = predicted({ prompt: 'Hi' });
  const text = await (await account.post('/v1/completions', { model, prompt: 'Hi', stream: true })).text();
  t.true(text.endsWith('data: [DONE]\n\n'));
  t.false(text.includes('"usage"'));
  const chunks = text
    .split('\n\n')
    .filter((event) => event.startsWith('data: {'))
    .map((event) => JSON.parse(event.slice(6)));
  t.is(chunks.map(({ choices }) => choices[0].text).join(''), expected.texts.join());
  t.is(chunks.at(-1).choices[0].finish_reason, 'stop');
  await account.assertCharged(t, 1, expected);
});

test('an answer that reaches its limit says so, and a repeated prompt is no output', async (t) => {
  const account = await openAccount(shared.stack(), 'completions-limit');
  const asked = { prompt: 'repeat 20 of this', max_tokens: 5, echo: true, logprobs: 1 };
  const expected = predicted(asked);
  const { choices, usage } = await account.openai.completions.create({ model, ...asked });
  t.deepEqual(
    choices.map(({ text, finish_reason }) => [text, finish_reason]),
    [[expected.texts[0], 'length']],
  );
  t.is(choices[0]?.logprobs?.tokens?.join(''), expected.texts.join());
  t.is(usage?.completion_tokens, 5);
  await account.assertCharged(t, 1, { promptTokens: expected.promptTokens, completionTokens: 5 });
});
