import test from 'ava';
import type OpenAI from 'openai';
import { BackendError } from '../../../shared/endpoints/answers/backend-error.ts';
import { completions } from '../../../shared/endpoints/completions.ts';
import type { StreamFormat } from '../../../shared/endpoints/definition/answer-format.ts';
import { backendAnswer } from '../../support/endpoints/backend-answer.ts';
import { callOf, faultsOf, faultyFields } from '../../support/endpoints/endpoint-call.ts';
import { sdkCompletion } from '../../support/endpoints/sdk-streams.ts';
import { streamOptions } from '../../support/stream-options.ts';

const prompt = 'Hi';

/** Every field of OpenAI's description of completions, with a value of each of its types. */
const published: Record<string, readonly unknown[]> = {
  prompt: ['Hi', '', ['a', 'b'], [1, 2, 3], [[1], [2, 3]]],
  best_of: [1, 20, null],
  echo: [true, false, null],
  frequency_penalty: [-2, 2, null],
  logit_bias: [{ '50256': -100 }, {}, null],
  logprobs: [0, 5, null],
  max_tokens: [1, 1_000, null],
  n: [1, 128, null],
  presence_penalty: [-2, 2, null],
  seed: [1, -1, null],
  stop: ['END', ['a', 'b', 'c', 'd'], null],
  stream: [true, false, null],
  stream_options: [null],
  suffix: ['x', '', null],
  temperature: [0, 2, null],
  top_p: [0, 1, null],
  user: ['x', null],
};

test('every published field is accepted in each of its types', (t) => {
  for (const [field, values] of Object.entries(published)) {
    for (const value of values)
      t.deepEqual(faultsOf(completions, { prompt, [field]: value }), [], `${field}: ${value}`);
  }
  const options = { include_usage: true, include_obfuscation: false };
  t.deepEqual(faultsOf(completions, { prompt, stream: true, stream_options: options }), []);
  const schema = completions.request.schema as unknown as { shape: object };
  t.deepEqual(Object.keys(schema.shape).sort(), [...Object.keys(published), 'model'].sort());
});

test('a wrong type is refused, and named by its path', (t) => {
  const wrong: readonly object[] = [
    ...[5, null, {}, [], [1, 'a'], ['a', 1], [[1], 'a'], [[]], [-1], [1.5], [['a']], Array(2_049).fill('a')].map(
      (given) => ({ prompt: given }),
    ),
    ...[0, 129, 1.5, '1'].map((best_of) => ({ best_of })),
    ...[0, -5, '7', 1_001].map((max_tokens) => ({ max_tokens })),
    ...[0, 129].map((n) => ({ n })),
    { echo: 'yes' },
    { frequency_penalty: 3 },
    { presence_penalty: -3 },
    { logit_bias: { a: 'b' } },
    { logprobs: true },
    { logprobs: 21 },
    { seed: '1' },
    { stop: 5 },
    { stop: [5] },
    { stop: Array(65).fill('a') },
    { stream: 'true' },
    { stream_options: {} },
    { suffix: 5 },
    { temperature: 2.5 },
    { top_p: 1.5 },
    { user: 5 },
    { not_published: 1 },
  ];
  for (const fields of wrong) {
    t.deepEqual(
      faultyFields(completions, { prompt, ...fields }),
      [Object.keys(fields)[0]],
      JSON.stringify(fields).slice(0, 80),
    );
  }
  const inside = { prompt, stream: true, stream_options: { include_usage: 1 } };
  t.deepEqual(faultyFields(completions, inside), ['stream_options.include_usage']);
});

test('the prompt and the model are required', (t) => {
  t.deepEqual(faultyFields(completions, {}), ['prompt']);
  t.deepEqual(faultyFields(completions, { prompt, model: undefined }), ['model']);
});

test('the backend gets the request as it came, without its limit, and a stream asks for its usage', (t) => {
  const call = callOf(completions, { prompt, max_tokens: 7, top_k: 3, echo: true });
  t.deepEqual(JSON.parse(call.payload), { prompt, top_k: 3, echo: true });
  t.like(call, {
    endpoint: '/v1/completions',
    stream: false,
    includeUsage: false,
    assembled: false,
    outputTokensMax: 7,
  });
  const options = { include_obfuscation: false };
  const stream = callOf(completions, { prompt, stream: true, stream_options: options });
  t.deepEqual(JSON.parse(stream.payload).stream_options, { ...options, include_usage: true });
  t.like(stream, { stream: true, includeUsage: false });
});

test('reserves for every choice of every prompt', (t) => {
  const cases: [object, number][] = [
    [{ prompt: 'a' }, 1],
    [{ prompt: ['a', 'b', 'c'] }, 3],
    [{ prompt: ['a', 'b', 'c'], n: 2 }, 6],
    [{ prompt: [1, 2, 3], n: 2 }, 2],
    [{ prompt: [[1], [2, 3]], n: 2, best_of: 5 }, 10],
  ];
  for (const [fields, choices] of cases) {
    const { cost, payload: body } = callOf(completions, { max_tokens: 7, ...fields });
    t.like(
      cost,
      { choices, reservedTokens: cost.promptTokens + 7 * choices, promptField: 'prompt' },
      JSON.stringify(fields),
    );
    t.is(completions.request.choicesOf?.(JSON.parse(body)), choices);
  }
  t.is(callOf(completions, { prompt: ['a', 'b'], n: 2 }).choices, 4, 'the choices of the answer');
  t.is(callOf(completions, { prompt: 'a', n: 2, best_of: 5 }).choices, 2, 'only those that are returned');
});

test('all prompts together have at most 2,048 choices', (t) => {
  const prompts = (count: number) => Array.from({ length: count }, () => 'a');
  const accepted = [{ prompt: prompts(2_048) }, { prompt: prompts(16), n: 128 }, { prompt: 'a', best_of: 128 }];
  for (const fields of accepted) t.deepEqual(faultyFields(completions, fields), []);
  const refused = [
    { prompt: prompts(2_048), n: 2 },
    { prompt: prompts(17), n: 1, best_of: 128 },
  ];
  for (const fields of refused) t.deepEqual(faultyFields(completions, fields), ['prompt']);
});

test('token ids count one each, and texts by their length; all other fields count as text', (t) => {
  const tokensOf = (fields: object) => callOf(completions, fields).cost.promptTokens;
  const ids = (count: number) => Array.from({ length: count }, (_, index) => 100_000 + index);
  t.is(tokensOf({ prompt: ids(5_000) }) - tokensOf({ prompt: ids(1_000) }), 4_000);
  t.is(tokensOf({ prompt: [ids(500), ids(500)] }), tokensOf({ prompt: ids(1_000) }));
  t.true(tokensOf({ prompt: 'word '.repeat(400) }) > 400);
  const suffix = 'word '.repeat(400);
  t.true(tokensOf({ prompt: 'a', suffix }) > 400);
  t.true(tokensOf({ prompt: ids(10), suffix }) > 400);
});

test('any object can be estimated, valid or not', (t) => {
  for (const given of [undefined, null, 5, {}, [null], [[], 'a'], [{}]])
    t.true(completions.request.estimatePrompt({ prompt: given }, JSON.stringify({ prompt: given })) > 0);
});

test('the tokenizer gets the texts of the prompt and the number of its token ids', (t) => {
  const { promptOf } = completions.request;
  t.like(promptOf({ prompt: 'a' }), { texts: ['a'], tokens: 0 });
  t.like(promptOf({ prompt: ['a', 'b'] }), { texts: ['a', 'b'], tokens: 0 });
  t.like(promptOf({ prompt: [1, 2, 3] }), { texts: [], tokens: 3 });
  t.like(promptOf({ prompt: [[1], [2, 3]] }), { texts: [], tokens: 3 });
  t.like(promptOf({}), { texts: [], tokens: 0 });
});

test('with echo the answer repeats the prompt once for each choice of it', (t) => {
  const repeats = (fields: object) => completions.request.repeatsOfPrompt?.(callOf(completions, fields).payload);
  t.is(repeats({ prompt: 'a' }), 0);
  t.is(repeats({ prompt: '"echo":true' }), 0, 'a prompt that only says so');
  t.is(repeats({ prompt: 'a', echo: true }), 1);
  t.is(repeats({ prompt: ['a', 'b'], echo: true, n: 3 }), 3, 'of all prompts together');
  t.is(repeats({ prompt: 'a', echo: true, n: 1, best_of: 128 }), 1, 'only those that are returned');
  t.is(repeats({ prompt: 'a', stream: true, stream_options: { echo: true } }), 0, 'a member of another field');
});

const { answer } = completions;
const { convert, ending } = answer.stream as StreamFormat; // completions have streams
const context = { model: 'm', requestId: 'req_1', createdAt: 1_700_000_000 };
const asked = { model: 'm', prompt: ['Grüße', 'Hi'], n: 2, stream: true, stream_options: { include_usage: true } };
const { whole, events, promptTokens, completionTokens } = backendAnswer('/v1/completions', asked);
const tokens = { promptTokens, completionTokens };
const textOf = (value: unknown) => (typeof value === 'string' ? value : JSON.stringify(value));
const presented = (given: unknown, used = tokens, model = 'm') =>
  JSON.parse(answer.present(answer.parse(textOf(given)), used, { ...context, model }));

function converted(data: readonly (string | object)[], model = 'm') {
  const converter = convert(streamOptions({ model }));
  return { converter, ready: data.map((event) => converter.take(textOf(event))) };
}

test('a whole completion passes byte for byte', (t) => {
  t.is(answer.present(answer.parse(whole), tokens, context), whole);
  t.deepEqual(presented(whole, tokens, 'alias'), { ...JSON.parse(whole), model: 'alias' });
});

test('properties that a server leaves out are added', (t) => {
  t.deepEqual(
    presented({ choices: [{ text: 'a' }, { text: 'b', index: 1 }] }, { promptTokens: 3, completionTokens: 2 }),
    {
      ...{ id: 'cmpl-req_1', object: 'text_completion', created: 1_700_000_000, model: 'm' },
      choices: [
        { index: 0, text: 'a', finish_reason: null, logprobs: null },
        { index: 1, text: 'b', finish_reason: null, logprobs: null },
      ],
      usage: { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 },
    },
  );
});

test('a usage that is missing, partial or wrong is replaced, and one that is too large is lowered', (t) => {
  const choices = [{ text: 'a' }];
  const used = { promptTokens: 3, completionTokens: 2 };
  const counted = { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 };
  for (const usage of [undefined, null, {}, { prompt_tokens: 3 }, { prompt_tokens: 3, completion_tokens: '2' }, 'x'])
    t.deepEqual(presented({ choices, usage }, used).usage, counted, JSON.stringify(usage));
  t.deepEqual(presented({ choices, usage: { prompt_tokens: 3, completion_tokens: 2 } }, used).usage, counted);
  const large = {
    prompt_tokens: 3,
    completion_tokens: 900,
    completion_tokens_details: { reasoning_tokens: 800 },
    vendor: 1,
  };
  t.deepEqual(presented({ choices, usage: large }, used).usage, { ...counted, vendor: 1 });
});

test('a stream passes byte for byte, and its usage comes last, if it was asked for', (t) => {
  const { converter, ready } = converted(events);
  const chunks = events.slice(0, -2).map((data) => `data: ${data}\n\n`);
  t.is(ready.join(''), chunks.join(''));
  t.is(converter.end(tokens, { includeUsage: false }), '');
  t.deepEqual(
    JSON.parse(converter.end(tokens, { includeUsage: true }).slice('data: '.length)),
    JSON.parse(events.at(-2) ?? ''),
  );
  t.deepEqual(converter.usage(), { ...tokens, cachedTokens: 0 });
});

test('empty texts are held back until the first token', (t) => {
  const empty = { choices: [{ index: 0, text: '' }] };
  const { ready } = converted([empty, empty, { choices: [{ index: 0, text: 'a' }] }]);
  t.deepEqual(
    ready.map((text) => text.split('\n\n').length - 1),
    [0, 0, 3],
  );
});

/** The text of each choice. */
function textsOf(chunks: readonly OpenAI.Completion[]): string[] {
  const texts: string[] = [];
  for (const { index, text } of chunks.flatMap(({ choices }) => choices)) texts[index] = (texts[index] ?? '') + text;
  return Array.from(texts, (text) => text ?? '');
}

test('cut at its limit at any event, each choice ends at its limit after what was delivered of it', async (t) => {
  for (const at of events.keys()) {
    const { converter, ready } = converted(events.slice(0, at + 1), 'alias');
    const delivered = ready.slice(0, -1).join('');
    const all = delivered + converter.cut(4) + converter.end(tokens, { includeUsage: true }) + ending().complete();
    const chunks = await sdkCompletion(all);
    const before = textsOf(await sdkCompletion(delivered));
    t.deepEqual(
      textsOf(chunks),
      Array.from({ length: 4 }, (_, index) => before[index] ?? ''),
      `cut at event ${at}`,
    );
    const reasons = chunks.flatMap(({ choices }) => choices.filter(({ finish_reason }) => finish_reason !== null));
    t.deepEqual(reasons.map(({ index }) => index).sort(), [0, 1, 2, 3], `each choice ends once: cut at event ${at}`);
    t.true(chunks.every(({ model, object, id }) => model === 'alias' && object === 'text_completion' && id !== ''));
    t.like(chunks.at(-1), { choices: [], usage: { prompt_tokens: promptTokens } });
  }
});

test('a cut whole answer keeps the beginning of each choice, and of its log probabilities', (t) => {
  const { whole: given } = backendAnswer('/v1/completions', { ...asked, logprobs: 1 });
  const cut = answer.cut(answer.parse(given), 0.5);
  const [before, after] = [given, cut.text].map((text) => JSON.parse(text).choices as OpenAI.CompletionChoice[]);
  for (const [index, choice] of (after ?? []).entries()) {
    const whole = before?.[index];
    t.true(whole?.text.startsWith(choice.text));
    if (choice.text === whole?.text) continue;
    t.is(choice.finish_reason, 'length');
    t.true((choice.logprobs?.tokens?.length ?? 0) < (whole?.logprobs?.tokens?.length ?? 0));
  }
});

const hostile: Record<string, [unknown, BackendError['fault']]> = {
  'an error': [{ error: { message: 'Dead.' } }, 'said'],
  'an error beside choices': [{ choices: [], error: { message: 'Dead.' } }, 'said'],
  'choices that are no list': [{ choices: {} }, 'unreadable'],
  'a text that is a number': [{ choices: [{ index: 0, text: 5 }] }, 'unreadable'],
  'a negative index': [{ choices: [{ index: -1, text: 'a' }] }, 'unreadable'],
  'a model that is no text': [{ choices: [], model: {} }, 'unreadable'],
  'half an event': ['{"choices', 'unreadable'],
};
for (const [title, [event, fault]] of Object.entries(hostile)) {
  test(`ends the stream as broken off: ${title}`, (t) => {
    const { converter } = converted(events.slice(0, 3));
    t.is(t.throws(() => converter.take(textOf(event)), { instanceOf: BackendError }).fault, fault);
  });
}

test('choices without end are given up', (t) => {
  const { converter } = converted(events.slice(0, 3));
  const begin = () => {
    for (let index = 0; index < 1_000_000; index++) converter.take(`{"choices":[{"index":${index},"text":""}]}`);
  };
  t.is(t.throws(begin, { instanceOf: BackendError }).fault, 'unreadable');
});

test('text counts also beside an empty message, in a stream and whole, and it is cut', (t) => {
  const text = 'Grüße aus der Küche';
  const { converter } = converted([{ choices: [{ index: 0, delta: {}, text }] }]);
  t.is(converter.text().sample, text);
  t.true(converter.begun());
  const parsed = answer.parse(textOf({ choices: [{ message: {}, text }] }));
  t.is(answer.writtenIn(parsed), text);
  t.like(answer.cut(parsed, 0.5).answer, { choices: [{ text: text.slice(0, text.length / 2) }] });
  const twice = answer.parse(textOf({ choices: [{ message: { content: text }, text }] }));
  t.is(answer.writtenIn(twice), text, 'once, if it is in both places');
});
