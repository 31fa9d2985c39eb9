import test from 'ava';
import OpenAI from 'openai';
import { demoTokens } from '../../stack/model-server/model/demo-answers.ts';
import type { Message } from '../../stack/model-server/model/text.ts';
import { startModelServer } from '../../stack/model-server.ts';

const demo = { docsUrl: 'http://127.0.0.1:8080/docs' };
const answer = (messages: readonly Message[], choice = 0) =>
  demoTokens({ model: 'small-chat', messages, choice }, demo).join('');
const user = (content: string): Message => ({ role: 'user', content });

test('a demo introduces its model in plain words, says how much was written, and where to connect a real one', (t) => {
  const text = answer([user('Hello')]);
  t.regex(
    text,
    /^(Hello!|Hi there!|Hello, and welcome!) I am small-chat, a simulated model of this demo\. You wrote 1 word\. Connect a real model: http:\/\/127\.0\.0\.1:8080\/docs$/,
  );
  t.is(answer([user('Hello')]), text);
  t.regex(answer([user('a b c')]), /You wrote 3 words/);
  t.regex(answer([]), /You wrote nothing/);
});

test('later answers of a conversation count its turns, and differ by what was written', (t) => {
  const later = (content: string) => answer([user('Hello'), { role: 'assistant', content: 'Hello!' }, user(content)]);
  t.regex(later('Thanks'), /^(You are welcome!|With pleasure!|Any time!) You wrote 1 word\. This is turn 2 /);
  t.false(later('Thanks').includes('I am small-chat'));
  const texts = ['What is a queue?', 'Who are you?', 'Tell me more', 'And now?', 'Fine', 'Really?'].map(later);
  t.true(new Set(texts).size > 4);
  t.is(answer([user('Hello repeat 3')]).split('\n').length, 3);
  const result = answer([user('Weather?'), { role: 'tool', content: 'sunny' }]);
  t.is(result, 'The tool says: sunny');
});

test('every endpoint of a demo answers so, in words that arrive one after another, and embeddings have 8 numbers', async (t) => {
  await using server = await startModelServer({ name: 'small-chat', demo });
  const client = new OpenAI({ baseURL: server.url, apiKey: 'none', maxRetries: 0 });
  const model = 'small-chat';
  const stream = await client.chat.completions.create({
    ...{ model, stream: true, stream_options: { include_usage: true } },
    messages: [{ role: 'user', content: 'Hello' }],
  });
  const pieces: string[] = [];
  let counted = 0;
  for await (const { choices, usage } of stream) {
    const piece = choices[0]?.delta.content ?? '';
    if (piece !== '') pieces.push(piece);
    counted = usage?.completion_tokens ?? counted;
  }
  const expected = demoTokens({ model, messages: [user('Hello')] }, demo);
  t.deepEqual(pieces, expected);
  t.is(counted, expected.length);

  const text = expected.join('');
  t.is((await client.completions.create({ model, prompt: 'Hello' })).choices[0]?.text, text);
  t.is((await client.responses.create({ model, input: 'Hello' })).output_text, text);
  const message = await fetch(`${server.url}/messages`, {
    method: 'POST',
    body: JSON.stringify({ model, max_tokens: 4, messages: [{ role: 'user', content: 'Hello' }] }),
  });
  t.like(await message.json(), { stop_reason: 'max_tokens', content: [{ text: expected.slice(0, 4).join('') }] });
  const { data } = await client.embeddings.create({ model, input: 'Hello', encoding_format: 'float' });
  t.is(data[0]?.embedding.length, 8);
});
