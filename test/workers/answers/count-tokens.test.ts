import { randomBytes } from 'node:crypto';
import test from 'ava';
import { countTokens as countExactly } from 'gpt-tokenizer/encoding/o200k_base';
import { promptUsage } from '../../../workers/answers/answer-request.ts';
import { countPromptTokens, countTokens } from '../../../workers/answers/count-tokens.ts';
import { jobFor } from '../../support/worker-side.ts';

const asText = { disallowedSpecial: new Set<string>() };

const known: [string, number][] = [
  ['', 0],
  ['hello world', 2],
  ['The quick brown fox jumps over the lazy dog.', 10],
  ['<|endoftext|>', 7],
  ['Say <|im_start|> to me', 9],
];

for (const [text, tokens] of known) {
  test(`${JSON.stringify(text)} is ${tokens} tokens`, async (t) => {
    t.is(await countTokens(text), tokens);
  });
}

const prose =
  'Über den Wolken, so "they" say — 東京 is 9,558 km away!\n\n\tfor (let i = 0; i < 10; i++) { total += i; }\r\n';

test('is exact for 32,768 characters of words and lines, in one piece or many', async (t) => {
  for (const length of [511, 512, 513, 1_024, 32_768]) {
    const text = prose.repeat(400).slice(0, length);
    t.is(await countTokens(text), countExactly(text, asText), `${length} characters`);
  }
});

test.serial('a text of 4 MiB is counted within a few percent, in a time independent of its length', async (t) => {
  await countTokens('the tokenizer is loaded');
  const text = 'All work and no play makes Jack a dull boy. '.repeat(95_326);
  const before = process.cpuUsage();
  const counted = await countTokens(text);
  t.true(process.cpuUsage(before).user < 500_000);
  const exact = countExactly(text.slice(0, 44 * 1_000), asText) * 95.326;
  t.true(Math.abs(counted / exact - 1) < 0.03, `${counted} counted, ${exact} exact`);
});

const unbroken = {
  'one letter': 'a'.repeat(32_768),
  'blank lines': '\n'.repeat(32_768),
  spaces: ' '.repeat(32_768),
  'a family of emoji': '👩‍👩‍👧‍👦'.repeat(3_000),
  signs: '!?'.repeat(16_384),
  base64: randomBytes(24_576).toString('base64'),
};

for (const [title, text] of Object.entries(unbroken)) {
  test.serial(`a long run without a space is counted quickly: ${title}`, async (t) => {
    await countTokens('the tokenizer is loaded');
    const before = process.cpuUsage();
    const counted = await countTokens(text);
    const { user } = process.cpuUsage(before);
    t.true(user < 350_000, `${user} µs of processor time`);
    const exact = countExactly(text.slice(0, 4_096), asText) * (text.length / 4_096);
    t.true(Math.abs(counted / exact - 1) < 0.05, `${counted} counted, ${exact} expected`);
  });
}

test('a text that is cut within a character is counted', async (t) => {
  t.true((await countTokens(`a${'👩'.repeat(20_000)}`)) > 10_000);
});

test("a prompt counts its messages' texts and four tokens for each message", async (t) => {
  const messages = [
    { role: 'system', content: 'hello world' },
    {
      role: 'user',
      content: [
        { type: 'text', text: 'hello' },
        { type: 'image_url', image_url: { url: 'data:x' } },
        { type: 'text', text: ' world' },
      ],
    },
    { role: 'assistant', content: null, tool_calls: [] },
    { role: 'assistant' },
  ];
  const body = JSON.stringify({ messages, temperature: 1 });
  t.is(
    await countPromptTokens({ endpoint: '/v1/chat/completions', body: body }),
    (await countTokens('hello world\nhello world\n\n')) + 4 * 4,
  );
});

test('tools and their calls are a part of the prompt', async (t) => {
  const described = { name: 'weather', description: 'Says how it is outside. '.repeat(100) };
  const tool = { type: 'function', function: described };
  const call = { name: 'weather', arguments: JSON.stringify({ city: 'Reykjavik '.repeat(100) }) };
  const messages = [{ role: 'assistant', content: null, tool_calls: [{ id: 'c', type: 'function', function: call }] }];
  const count = (body: object) =>
    countPromptTokens({ endpoint: '/v1/chat/completions', body: JSON.stringify({ messages: [], ...body }) });
  for (const [body, text] of [
    [{ tools: [tool] }, tool],
    [{ functions: [described] }, described],
    [{ messages }, call],
  ] as const)
    t.true((await count(body)) >= (await countTokens(JSON.stringify(text))), JSON.stringify(body).slice(0, 60));
});

test('a request that is free is charged no prompt, also if its client leaves', async (t) => {
  const body = JSON.stringify({ messages: [{ role: 'user', content: 'hello world' }] });
  const usageAt = (endpoint: string) => promptUsage(jobFor('no stream', { endpoint, body }));
  t.like(await usageAt('/v1/messages/count_tokens'), { promptTokens: 0, completionTokens: 0 });
  t.is((await usageAt('/v1/messages')).promptTokens, 2 + 4);
});

test('a prompt without a reported number is charged at least half of what admission has estimated', async (t) => {
  const body = JSON.stringify({ messages: [{ role: 'user', content: 'hello world' }] });
  const usageAt = (promptEstimate: number) => promptUsage(jobFor('no stream', { body, promptEstimate }));
  const counted = 2 + 4;
  t.is((await usageAt(2 * counted)).promptTokens, counted);
  t.is((await usageAt(2 * counted + 1)).promptTokens, counted + 1);
  t.like(await usageAt(100_000), { promptTokens: 50_000, completionTokens: 0, estimated: true });
});
