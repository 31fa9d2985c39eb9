import test from 'ava';
import type OpenAI from 'openai';
import { BackendError } from '../../../../shared/endpoints/answers/backend-error.ts';
import { completions } from '../../../../shared/endpoints/completions/completions.ts';
import type { StreamFormat } from '../../../../shared/endpoints/definition/answer-format.ts';
import { backendAnswer } from '../../../support/endpoints/backend-answer.ts';
import { sdkCompletion } from '../../../support/endpoints/sdk-streams.ts';
import { streamOptions } from '../../../support/stream-options.ts';

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
