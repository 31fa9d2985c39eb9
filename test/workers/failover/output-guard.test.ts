import test from 'ava';
import fc from 'fast-check';
import type { CallBackend } from '../../../workers/backend-client/call-backend.ts';
import { answerStream, answerWhole, type RunAnswer } from '../../../workers/failover/answer-request.ts';
import { countTokens } from '../../../workers/failover/count-tokens.ts';
import { createOutputGuard, createTokenMeter } from '../../../workers/failover/output-guard.ts';
import { textOfBody } from '../../../workers/replies/send-pieces.ts';
import { roomFor } from '../../support/answer-room.ts';
import { jobFor } from '../../support/worker-side.ts';

const head = { id: 'x', object: 'chat.completion', created: 1, model: 'medium-chat' };
const prompt = { messages: [{ role: 'user', content: 'Hi' }] };
const backend = { url: 'http://127.0.0.1:1/v1', location: 'on-prem' } as const;

type Given = { limit: number; n?: number; assembled?: boolean; includeUsage?: boolean };
type Chunk = { choices: object[]; usage?: object };

const usageOf = (completion_tokens: number) => ({
  prompt_tokens: 7,
  completion_tokens,
  total_tokens: 7 + completion_tokens,
  completion_tokens_details: { reasoning_tokens: completion_tokens },
});
const part = (content: string, more: object = {}) => ({ index: 0, delta: { content }, finish_reason: null, ...more });
const says = (content: string, tokens?: number, index = 0): Chunk => ({
  choices: [part(content, { index })],
  ...(tokens !== undefined && { usage: usageOf(tokens) }),
});
const stops = (index = 0): Chunk => ({ choices: [{ index, delta: {}, finish_reason: 'stop' }] });

/** A backend that streams these chunks, or returns this answer. `isRead`: whether it was read to its end. */
function backendOf(given: readonly Chunk[] | object) {
  const seen = { isRead: false, taken: 0 };
  const callBackend: CallBackend = {
    async whole(_call, body) {
      body.take(Buffer.from(JSON.stringify({ ...head, ...given })));
      return body.end();
    },
    async stream(_call, { take }) {
      for (const chunk of given as Chunk[]) {
        seen.taken++;
        const event = { id: 'x', object: 'chat.completion.chunk', model: 'medium-chat', ...chunk };
        if (await take(JSON.stringify(event))) return 'cut';
      }
      seen.isRead = true;
      await take('[DONE]');
      return 'done';
    },
  };
  return { callBackend, seen };
}

async function ask(
  given: readonly Chunk[] | object,
  { limit, n, assembled = false, includeUsage = true }: Given,
  stream: boolean,
) {
  const { callBackend, seen } = backendOf(given);
  const body = JSON.stringify({ ...prompt, ...(n !== undefined && { n }) });
  const job = jobFor('no stream', { payload: body, choices: n ?? 1, outputTokensMax: limit, assembled, includeUsage });
  const call = {
    backend,
    path: '/chat/completions',
    headers: {},
    apiKey: undefined,
    requestId: 'r',
    body: '',
    room: roomFor(),
    signal: AbortSignal.timeout(30_000),
    ...{ onHead() {}, onToken() {}, isBusy: () => false },
  };
  let text = '';
  const reported: number[] = [];
  const begun: unknown[] = [];
  const reply = {
    async chunk(ready: string, tokens: number) {
      text += ready;
      reported.push(tokens);
    },
  };
  const onFirstToken = (token: unknown) => begun.push(token);
  const answering = { job, call, callBackend, reply, onCalling() {}, onFirstToken };
  const answered: RunAnswer = await (stream ? answerStream : answerWhole)(answering);
  const events = (text + (answered.finalEvents ?? ''))
    .split('\n\n')
    .filter((event) => event !== '')
    .map((event) => JSON.parse(event.slice('data: '.length)));
  return {
    ...answered,
    body: answered.body === undefined ? undefined : textOfBody(answered.body),
    ...seen,
    events,
    reported,
    begun,
  };
}

const streamed = (chunks: readonly Chunk[], given: Given) => ask(chunks, given, true);
const textOf = (events: { choices: { index: number; delta: { content?: string } }[] }[], index = 0) =>
  events
    .flatMap(({ choices }) =>
      choices.filter((choice) => choice.index === index).map(({ delta }) => delta.content ?? ''),
    )
    .join('');
const endsOf = (events: { choices: { index: number; finish_reason: string | null }[] }[]) =>
  events.flatMap(({ choices }) =>
    choices.flatMap(({ index, finish_reason: end }) => (end === null ? [] : [[index, end]])),
  );

test("a stream continues up to the limit by its backend's count, and is ended at the next token", async (t) => {
  const words = Array.from({ length: 50 }, (_, index) => says(` ${index}`, index + 1));
  const within = await streamed([...words.slice(0, 3), stops()], { limit: 3 });
  t.is(textOf(within.events), ' 0 1 2');
  t.deepEqual(endsOf(within.events), [[0, 'stop']]);
  t.like(within, {
    isRead: true,
    isOverLimit: false,
    usage: { promptTokens: 7, completionTokens: 3, estimated: false },
  });

  const over = await streamed(words, { limit: 3 });
  t.is(textOf(over.events), ' 0 1 2');
  t.deepEqual(endsOf(over.events), [[0, 'length']]);
  t.like(over, { isRead: false, taken: 4, isOverLimit: true });
  t.deepEqual(over.usage, { promptTokens: 7, completionTokens: 3, cachedTokens: 0, estimated: false });
  t.deepEqual(over.events.at(-1)?.choices, []);
  t.true(over.finalEvents?.includes('"usage"'), 'it is sent with the end');
  t.deepEqual(over.events.at(-1)?.usage, { prompt_tokens: 7, completion_tokens: 3, total_tokens: 10 });
  t.true(over.events.every(({ id, model }) => id === 'x' && model === 'medium-chat'));
  t.is(over.begun.length, 1);

  const withoutUsage = await streamed(words, { limit: 3, includeUsage: false });
  t.deepEqual(withoutUsage.events.at(-1)?.choices[0]?.finish_reason, 'length');
});

test('if the backend does not count, a stream is ended beyond 3 times the limit plus 256 tokens by our count', async (t) => {
  const slack = 3 * 10 + 256;
  const word = ' a';
  t.is(await countTokens(word.repeat(slack)), slack);
  const words = (count: number) => Array.from({ length: count }, () => says(word));
  const within = await streamed([...words(slack), stops()], { limit: 10 });
  t.is(textOf(within.events), word.repeat(slack));
  t.like(within, { isOverLimit: false, usage: { completionTokens: 10, estimated: true } });
  t.deepEqual(endsOf(within.events), [[0, 'stop']]);

  const over = await streamed([...words(slack + 1), stops()], { limit: 10 });
  t.is(textOf(over.events), word.repeat(slack));
  t.deepEqual(endsOf(over.events), [[0, 'length']]);
  t.like(over, { isRead: false, isOverLimit: true, usage: { completionTokens: 10, estimated: true } });
  t.true(
    over.reported.every((tokens) => tokens <= 10),
    'an ingress that charges for it charges no more',
  );

  const atOnce = await streamed([says('a b '.repeat(100_000)), stops()], { limit: 10 });
  t.is(textOf(atOnce.events), '');
  t.deepEqual(endsOf(atOnce.events), [[0, 'length']]);
  t.is(atOnce.begun.length, 1);
});

test('text that exceeds the limit after the end of its choice is not delivered, and the choice is not ended again', async (t) => {
  const { events, isOverLimit } = await streamed([says('a', 1), stops(), says('b', 100)], {
    limit: 3,
    includeUsage: false,
  });
  t.is(textOf(events), 'a');
  t.deepEqual(endsOf(events), [[0, 'stop']]);
  t.true(isOverLimit);
});

test('text that is still being counted when its call is aborted is not delivered', async (t) => {
  const aborting = new AbortController();
  const event = { id: 'x', object: 'chat.completion.chunk', model: 'medium-chat', ...says(' a'.repeat(4_000)) };
  const callBackend: CallBackend = {
    whole: () => Promise.reject(new Error('it is a stream')),
    async stream(_call, { take }) {
      const taken = take(JSON.stringify(event));
      t.not(typeof taken, 'boolean');
      aborting.abort(new Error('the client left'));
      await taken;
      throw aborting.signal.reason;
    },
  };
  const job = jobFor('no stream', { payload: JSON.stringify(prompt), outputTokensMax: 1_000 });
  const call = {
    backend,
    path: '/chat/completions',
    headers: {},
    apiKey: undefined,
    requestId: 'r',
    body: '',
    room: roomFor(),
    signal: aborting.signal,
    ...{ onHead() {}, onToken() {}, isBusy: () => false },
  };
  const reply = { chunk: async () => t.fail() };
  const answering = answerStream({ job, call, callBackend, reply, onCalling() {}, onFirstToken() {} });
  await t.throwsAsync(answering, { message: 'the client left' });
});

test('tokens are counted across chunks', async (t) => {
  const text = 'internationalization of considerations '.repeat(200);
  const tokens = await countTokens(text);
  const limit = Math.ceil((tokens - 256) / 3);
  const letters = [...text].map((letter) => says(letter));
  t.true(letters.length > 2 * tokens, 'each is far less than a token');
  t.false((await streamed([...letters, stops()], { limit })).isOverLimit);
  t.true((await streamed([...letters, stops()], { limit: limit - 3 })).isOverLimit);
});

test('reasoning and arguments of tool calls count as well', async (t) => {
  const kinds = [
    { reasoning_content: ' a' },
    { tool_calls: [{ index: 0, id: 'c', type: 'function', function: { name: 'f', arguments: ' a' } }] },
  ];
  for (const delta of kinds) {
    const chunks = Array.from({ length: 600 }, () => ({ choices: [{ index: 0, delta, finish_reason: null }] }));
    const { isOverLimit, events } = await streamed(chunks, { limit: 10 });
    t.true(isOverLimit);
    t.true(events.length < 300);
  }
});

test('the limit applies to each choice, and each unfinished choice is ended, also one that has not begun', async (t) => {
  const sum = (tokens: number): Chunk => ({ choices: [], usage: usageOf(tokens) });
  // Beside a choice, vLLM's usage in every chunk is that of this choice.
  const chunks = [says('a', 1), says('b', 1, 1), stops(1), says('c', 2), says('d', 500), sum(6), sum(7)];
  const within = await streamed(
    [...chunks.slice(0, 6), stops(), { choices: [part('', { index: 2, finish_reason: 'stop' })] }],
    {
      limit: 2,
      n: 3,
    },
  );
  t.like(within, { isOverLimit: false, usage: { completionTokens: 6 } });
  const over = await streamed(chunks, { limit: 2, n: 3 });
  t.deepEqual(
    [0, 1, 2].map((index) => textOf(over.events, index)),
    ['acd', 'b', ''],
  );
  t.deepEqual(endsOf(over.events), [
    [1, 'stop'],
    [0, 'length'],
    [2, 'length'],
  ]);
  t.is(over.events.find(({ choices }) => choices[0]?.index === 2)?.choices[0]?.delta.role, 'assistant');
  t.is(over.usage.completionTokens, 6);
});

test('a complete stream stays unchanged, and is charged at most its limit', async (t) => {
  for (const last of [
    { choices: [], usage: usageOf(500) },
    { ...stops(), usage: usageOf(500) },
  ]) {
    const chunks = last.choices.length === 0 ? [says('all of it'), stops(), last] : [says('all of it'), last];
    const { events, ...answer } = await streamed(chunks, { limit: 5 });
    t.is(textOf(events), 'all of it');
    t.deepEqual(endsOf(events), [[0, 'stop']]);
    t.like(answer, { isRead: true, isOverLimit: true, usage: { completionTokens: 5, estimated: false } });
    t.deepEqual(events.at(-1)?.usage, { prompt_tokens: 7, completion_tokens: 5, total_tokens: 12 });
  }
});

test('the last text of an answer is also within the limit', async (t) => {
  const last = (tokens?: number): Chunk => ({
    ...says('all at once '.repeat(500), tokens),
    choices: [part('all at once '.repeat(500), { finish_reason: 'stop' })],
  });
  for (const tokens of [501, undefined]) {
    const { events, ...answer } = await streamed([says('Well: ', 1), last(tokens)], { limit: 5 });
    t.is(textOf(events), 'Well: ');
    t.deepEqual(endsOf(events), [[0, 'length']]);
    t.like(answer, { isOverLimit: true, usage: { completionTokens: 5 } });
    const whole = await ask([says('Well: ', 1), last(tokens)], { limit: 5, assembled: true }, false);
    const { finish_reason, message } = JSON.parse(whole.body ?? '').choices[0];
    t.is(finish_reason, 'length');
    t.true(message.content.length < 1_500, `${message.content.length} characters`);
  }
});

test('an assembled answer is ended in the same way, and its last part is cut off', async (t) => {
  const words = Array.from({ length: 50 }, (_, index) => says(` ${index % 10}`, index + 1));
  const counted = await ask(words, { limit: 3, assembled: true }, false);
  t.like(counted, { isRead: false, taken: 4, isOverLimit: true, usage: { completionTokens: 3, estimated: false } });
  const { choices, usage } = JSON.parse(counted.body ?? '');
  t.like(choices[0], { finish_reason: 'length', message: { role: 'assistant', content: ' 0 1 2' } });
  t.deepEqual(usage, { prompt_tokens: 7, completion_tokens: 3, total_tokens: 10 });
  t.deepEqual(counted.begun, [{ id: 'x', isDelivered: false }], 'another backend could still take over');

  const ours = await ask(
    Array.from({ length: 600 }, () => says(' a')),
    { limit: 10, assembled: true },
    false,
  );
  t.like(ours, { isRead: false, isOverLimit: true, usage: { completionTokens: 10, estimated: true } });
  const content: string = JSON.parse(ours.body ?? '').choices[0].message.content;
  t.true(content.length >= 2 * 280 && content.length <= 2 * 286, String(content.length));
});

const message = { role: 'assistant', content: 'x'.repeat(100), refusal: null };
const whole = (tokens: number | undefined, more: object = {}) => ({
  choices: [{ index: 0, message, finish_reason: 'stop', logprobs: null, ...more }],
  ...(tokens !== undefined && { usage: usageOf(tokens) }),
});

test('a whole answer within the limit is passed on unchanged, and a longer one is cut', async (t) => {
  const within = await ask(whole(50), { limit: 50 }, false);
  t.is(within.body, JSON.stringify({ ...head, ...whole(50) }));
  t.like(within, { isOverLimit: false, usage: { completionTokens: 50 } });

  const over = await ask(whole(200), { limit: 50 }, false);
  const { choices, usage } = JSON.parse(over.body ?? '');
  t.deepEqual(choices, [
    { index: 0, message: { ...message, content: 'x'.repeat(25) }, finish_reason: 'length', logprobs: null },
  ]);
  t.deepEqual(usage, { prompt_tokens: 7, completion_tokens: 50, total_tokens: 57 });
  t.like(over, { isOverLimit: true, usage: { promptTokens: 7, completionTokens: 50, estimated: false } });
  t.like(await ask(whole(51), { limit: 50 }, false), { isOverLimit: true, usage: { completionTokens: 50 } });
  t.like(await ask(whole(100), { limit: 50, n: 2 }, false), { isOverLimit: false, usage: { completionTokens: 100 } });
});

test('a whole answer without a count is cut beyond 3 times the limit plus 256 tokens by our count', async (t) => {
  const slack = 3 * 10 + 256;
  const of = (words: number) => whole(undefined, { message: { role: 'assistant', content: ' a'.repeat(words) } });
  const within = await ask(of(slack), { limit: 10 }, false);
  t.like(within, { isOverLimit: false, usage: { completionTokens: 10, estimated: true } });
  t.is(JSON.parse(within.body ?? '').choices[0].message.content, ' a'.repeat(slack));
  const over = await ask(of(2 * slack), { limit: 10 }, false);
  t.like(over, { isOverLimit: true, usage: { completionTokens: 10, estimated: true } });
  t.like(JSON.parse(over.body ?? '').choices[0], { finish_reason: 'length', message: { content: ' a'.repeat(slack) } });
});

test('a stream that repeats its prompt may be longer by the prompt, and is ended beyond that', async (t) => {
  const prompt = ' b'.repeat(1_000);
  const body = JSON.stringify({ prompt, echo: true, n: 2 });
  const slack = 3 * (2 * 10 + 2 * 1_000) + 256;
  const passes = async (words: number) => {
    const guard = createOutputGuard({ endpoint: '/v1/completions', payload: body, outputTokensMax: 10 });
    return guard.passes({ text: ' a'.repeat(words), tokens: undefined });
  };
  t.false(await passes(slack));
  t.true(await passes(slack + 1));
});

test('a text that is too short for the limit is not counted', (t) => {
  const meter = createTokenMeter();
  meter.add('a'.repeat(10));
  t.is(meter.isOver(10), false);
  meter.add('東');
  t.is(meter.isOver(13), false, 'a character of three bytes is at most three tokens');
  t.not(meter.isOver(12), false);
});

test('a text has the same number of tokens in any parts', async (t) => {
  const words = fc.array(fc.constantFrom('word', 'a', 'considerations', '東京', 'x1', '{"a":1}'), {
    minLength: 1,
    maxLength: 3_000,
  });
  await fc.assert(
    fc.asyncProperty(words, fc.integer({ min: 1, max: 700 }), async (some, size) => {
      const text = some.join(' ');
      const tokens = await countTokens(text);
      const meter = createTokenMeter();
      for (let at = 0; at < text.length; at += size) {
        meter.add(text.slice(at, at + size));
        if (at % 3 === 0) await meter.isOver(at / 5);
      }
      t.deepEqual(
        [await meter.isOver(tokens - 1), await meter.isOver(tokens)],
        [true, false],
        `${text.length} by ${size}`,
      );
    }),
    { numRuns: 30 },
  );
});

test('only a part of a long text is kept, and it is counted in steps', async (t) => {
  const meter = createTokenMeter();
  const text = 'some words '.repeat(100_000);
  meter.add(text);
  t.true(await meter.isOver(199_000));
  t.false(await meter.isOver(201_000));
});
