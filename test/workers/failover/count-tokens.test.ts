import { randomBytes } from 'node:crypto';
import { setImmediate as nextTurn } from 'node:timers/promises';
import test from 'ava';
import { countTokens as countExactly } from 'gpt-tokenizer/encoding/o200k_base';
import { promptUsage } from '../../../workers/failover/answer-usage.ts';
import { countPromptTokens, countTokens } from '../../../workers/failover/count-tokens.ts';
import { seededRandom } from '../../support/random.ts';
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

/** Counts the turns of the event loop until the promise is settled. */
async function turnsOf(counting: Promise<unknown>): Promise<number> {
  let isOver = false;
  void counting.finally(() => {
    isOver = true;
  });
  let turns = 0;
  for (; !isOver; turns++) await nextTurn();
  await counting;
  return turns;
}

test.serial('a file of text in a prompt is counted like any text, and reading a large body is divided', async (t) => {
  const chat = '/v1/chat/completions';
  const asking = (...content: object[]) => JSON.stringify({ messages: [{ role: 'user', content }] });
  const dataUrl = (bytes: Buffer, type: string) => `data:${type};base64,${bytes.toString('base64')}`;
  const text = 'All work and no play makes Jack a dull boy. '.repeat(20_000);
  const file = { type: 'file', file: { file_data: dataUrl(Buffer.from(text), 'text/plain') } };
  const counting = countPromptTokens({ endpoint: chat, payload: asking(file) });
  const turns = await turnsOf(counting);
  t.true(turns >= 32, `${turns} turns`);
  t.true(Math.abs((await counting) / (await countTokens(text)) - 1) < 0.03);

  const image = { type: 'image_url', image_url: { url: dataUrl(randomBytes(1_000_000), 'image/png') } };
  const turnsOfImage = await turnsOf(countPromptTokens({ endpoint: chat, payload: asking(image) }));
  t.true(turnsOfImage >= 2, `it is parsed and read in ${turnsOfImage} turns`);
});

/** Random letters of a script, the slowest content. */
const georgian = (length: number) =>
  Array.from(randomBytes(length), (byte) => String.fromCharCode(0x10d0 + (byte % 33))).join('');

test.serial('counting lets other events in after each 1,024 characters, also if many texts are counted', async (t) => {
  await countTokens('the tokenizer is loaded');
  const atOnce = 6;
  const texts = Array.from({ length: atOnce }, () => georgian(8_192));
  const turns = await turnsOf(Promise.all(texts.map((text) => countTokens(text))));
  t.true(turns >= (atOnce * 8_192) / 1_024, `${turns} turns`);

  const short = Array.from({ length: 1_000 }, () => 'hello world');
  const turnsOfShort = await turnsOf(Promise.all(short.map((text) => countTokens(text))));
  t.true(turnsOfShort >= 10 && turnsOfShort < 100, `short texts share turns: ${turnsOfShort}`);
});

test.serial('a text of 4 MiB is counted within a few percent, in fewer than a hundred turns', async (t) => {
  await countTokens('the tokenizer is loaded');
  const text = 'All work and no play makes Jack a dull boy. '.repeat(95_326);
  const turns = await turnsOf(countTokens(text));
  t.true(turns >= 32 && turns < 100, `${turns} turns`);
  const exact = countExactly(text.slice(0, 44 * 1_000), asText) * 95.326;
  const counted = await countTokens(text);
  t.true(Math.abs(counted / exact - 1) < 0.03, `${counted} counted, ${exact} exact`);
});

const dense = (length: number) =>
  Array.from({ length: length / 5 }, (_, index) => `w${((index * 7_919) % 99_991).toString(36).padStart(4)}`)
    .join('')
    .slice(0, length);
const stripes = (count: number, cheap: number, costly: number) =>
  Array.from({ length: count }, () => ' '.repeat(cheap) + dense(costly)).join('');

/** Cheap text in places that a sampler with fixed places would look at. */
const layouts = {
  'cheap text first': ' '.repeat(32_768) + dense(100_000),
  'cheap text first and last': '-'.repeat(20_000) + dense(100_000) + '-'.repeat(20_000),
  'cheap text in the middle': dense(50_000) + '\n'.repeat(100_000) + dense(50_000),
  'cheap text at each 64th': stripes(64, 512, 1_500),
  'cheap text at each thousandth character': stripes(150, 500, 500),
  'cheap text, then another script': 'a'.repeat(60_000) + '東京は日本の首都である。'.repeat(5_000),
};

for (const [title, text] of Object.entries(layouts)) {
  test.serial(`no layout hides tokens: ${title}`, async (t) => {
    // The encoder's time grows with the square of an unbroken run.
    const exact = (text.match(/.{1,100}/gs) ?? []).reduce((sum, part) => sum + countExactly(part, asText), 0);
    for (const seed of [1, 2, 3]) {
      const counted = await countTokens(text, seededRandom(seed));
      t.true(Math.abs(counted / exact - 1) < 0.1, `${counted} counted, ${exact} exact`);
    }
  });
}

test('a text of which all samples but one are cheap has at least the tokens of that sample', async (t) => {
  t.true((await countTokens(' '.repeat(1_000_000) + dense(16_384))) > 5_000);
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
  test.serial(`a long run without a space is counted within 7 %: ${title}`, async (t) => {
    const counted = await countTokens(text);
    const exact = countExactly(text.slice(0, 4_096), asText) * (text.length / 4_096);
    t.true(Math.abs(counted / exact - 1) < 0.07, `${counted} counted, ${exact} expected`);
  });
}

test('a text that is cut within a character is counted', async (t) => {
  t.true((await countTokens(`a${'👩'.repeat(20_000)}`)) > 10_000);
});

test("a prompt counts its messages' texts, its media and four tokens for each message", async (t) => {
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
    await countPromptTokens({ endpoint: '/v1/chat/completions', payload: body }),
    (await countTokens('hello world\nhello world\n\n')) + 4 * 4 + 1_500,
  );
});

test('tools and their calls are a part of the prompt', async (t) => {
  const described = { name: 'weather', description: 'Says how it is outside. '.repeat(100) };
  const tool = { type: 'function', function: described };
  const call = { name: 'weather', arguments: JSON.stringify({ city: 'Reykjavik '.repeat(100) }) };
  const messages = [{ role: 'assistant', content: null, tool_calls: [{ id: 'c', type: 'function', function: call }] }];
  const count = (body: object) =>
    countPromptTokens({ endpoint: '/v1/chat/completions', payload: JSON.stringify({ messages: [], ...body }) });
  for (const [body, text] of [
    [{ tools: [tool] }, tool],
    [{ functions: [described] }, described],
    [{ messages }, call],
  ] as const)
    t.true((await count(body)) >= (await countTokens(JSON.stringify(text))), JSON.stringify(body).slice(0, 60));
});

test('a request that is free is charged no prompt, also if its client leaves', async (t) => {
  const body = JSON.stringify({ messages: [{ role: 'user', content: 'hello world' }] });
  const usageAt = (endpoint: string) => promptUsage(jobFor('no stream', { endpoint, payload: body }));
  t.like(await usageAt('/v1/messages/count_tokens'), { promptTokens: 0, completionTokens: 0 });
  t.is((await usageAt('/v1/messages')).promptTokens, 2 + 4);
});

test('a prompt without a reported number is charged at least half of what admission has estimated', async (t) => {
  const body = JSON.stringify({ messages: [{ role: 'user', content: 'hello world' }] });
  const usageAt = (promptEstimate: number) => promptUsage(jobFor('no stream', { payload: body, promptEstimate }));
  const counted = 2 + 4;
  t.is((await usageAt(2 * counted)).promptTokens, counted);
  t.is((await usageAt(2 * counted + 1)).promptTokens, counted + 1);
  t.like(await usageAt(100_000), { promptTokens: 50_000, completionTokens: 0, estimated: true });
});
