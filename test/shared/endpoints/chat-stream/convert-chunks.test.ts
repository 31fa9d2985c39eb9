import test from 'ava';
import { BackendError } from '../../../../shared/endpoints/answers/backend-error.ts';
import { chatKind } from '../../../../shared/endpoints/chat/chat.ts';
import { createChunkConverter } from '../../../../shared/endpoints/chat-stream/convert-chunks.ts';
import { streamOptions } from '../../../support/stream-options.ts';

const head = { id: 'x', object: 'chat.completion.chunk', created: 1, model: 'm' };
const usage = { prompt_tokens: 3, completion_tokens: 5, total_tokens: 8, vendor: 1 };
const counted = { promptTokens: 30, completionTokens: 50 };
/** The tokens of `usage`. */
const charged = { promptTokens: 3, completionTokens: 5 };

function chunk(delta: object | null, rest: { index?: number; finish_reason?: string | null } = {}, more: object = {}) {
  return JSON.stringify({ ...head, choices: [{ index: 0, delta, finish_reason: null, ...rest }], ...more });
}
const role = chunk({ role: 'assistant', content: '' });
const text = chunk({ content: 'Grüße' });
const finish = chunk({}, { finish_reason: 'stop' });
const usageOnly = JSON.stringify({ ...head, choices: [], usage });
const event = (data: string) => `data: ${data}\n\n`;
const parse = (ready: string) => JSON.parse(ready.slice('data: '.length));

const one = () => 1;

function converted(...data: string[]) {
  const converter = createChunkConverter(chatKind, streamOptions({ model: 'm' }));
  return { converter, ready: data.map((item) => converter.take(item)) };
}

const noTokens = {
  'a role': role,
  'a role alone': chunk({ role: 'assistant' }),
  'a role with nothing else': chunk({
    role: 'assistant',
    content: null,
    reasoning_content: '',
    tool_calls: [],
    refusal: null,
  }),
  'an empty delta': chunk({}),
  'no choices': JSON.stringify({ ...head, choices: [] }),
};

for (const [title, data] of Object.entries(noTokens)) {
  test(`${title} does not begin the answer; it is sent with the first token`, (t) => {
    const { converter, ready } = converted(data);
    t.deepEqual(ready, ['']);
    t.false(converter.begun());
    t.is(converter.take(text), event(data) + event(text));
    t.true(converter.begun());
  });
}

test('a stream that is cut at its first token has what was held back, and one that is cut later has it once', (t) => {
  const atFirst = converted(role, text);
  t.true(atFirst.converter.cut(1).startsWith(event(role)));
  const later = converted(role, text, usageOnly);
  t.is(later.ready[1], event(role) + event(text));
  t.false(later.converter.cut(1).includes(event(role)));
});

const tokens = {
  'a content': chunk({ content: ' ' }),
  'a reasoning': chunk({ reasoning_content: 'Hm' }),
  'a tool call': chunk({
    tool_calls: [{ index: 0, id: 'c', type: 'function', function: { name: 'f', arguments: '' } }],
  }),
  'an end without any text': finish,
};

for (const [title, data] of Object.entries(tokens)) {
  test(`${title} begins the answer and is sent unchanged`, (t) => {
    const { converter, ready } = converted(data);
    t.deepEqual(ready, [event(data)]);
    t.true(converter.begun());
  });
}

test("drops the usage chunk, and returns the backend's own usage as one", (t) => {
  const { converter, ready } = converted(text, finish, usageOnly, '[DONE]');
  t.deepEqual(ready, [event(text), event(finish), '', '']);
  t.deepEqual(converter.usage(), { promptTokens: 3, completionTokens: 5, cachedTokens: 0 });
  t.deepEqual(parse(converter.end(charged, { includeUsage: true })), { ...head, choices: [], usage });
});

test('usage in the last content chunk is moved to a separate chunk', (t) => {
  const { converter, ready } = converted(text, chunk({}, { finish_reason: 'stop' }, { usage }));
  t.deepEqual(ready.map(parse), [JSON.parse(text), JSON.parse(finish)]);
  t.deepEqual(parse(converter.end(charged, { includeUsage: true })), { ...head, choices: [], usage });
});

test('of running totals the last one counts, and none is sent', (t) => {
  const early = { ...usage, completion_tokens: 1 };
  const { converter, ready } = converted(chunk({ content: 'a' }, {}, { usage: early }), usageOnly);
  t.false(ready.join('').includes('usage'));
  t.is(converter.usage()?.completionTokens, 5);
});

test('`usage: null` is removed from every chunk', (t) => {
  const { ready } = converted(chunk({ content: 'a' }, {}, { usage: null }));
  t.deepEqual(ready.map(parse), [JSON.parse(chunk({ content: 'a' }))]);
});

for (const unreadable of [{}, { prompt_tokens: null, completion_tokens: 5 }, 'many']) {
  test(`the usage chunk has the counted usage if ${JSON.stringify(unreadable)} was reported`, (t) => {
    const { converter, ready } = converted(text, JSON.stringify({ ...head, choices: [], usage: unreadable }));
    t.deepEqual(ready, [event(text), '']);
    t.is(converter.usage(), undefined);
    t.deepEqual(parse(converter.end(counted, { includeUsage: true })), {
      ...head,
      choices: [],
      usage: { prompt_tokens: 30, completion_tokens: 50, total_tokens: 80 },
    });
  });
}

for (const model of ['upstream-model', undefined]) {
  test(`the name ${model} is replaced by the client's name in every chunk`, (t) => {
    const { converter, ready } = converted(
      chunk({ content: 'a' }, {}, { model }),
      JSON.stringify({ choices: [], usage, model }),
    );
    t.deepEqual(parse(ready.join('')), JSON.parse(chunk({ content: 'a' })));
    t.is(parse(converter.end(counted, { includeUsage: true })).model, 'm');
  });
}

test('a first chunk without choices passes, with and without `usage: null`', (t) => {
  const filter = { ...head, choices: [], prompt_filter_results: [{ prompt_index: 0 }] };
  t.is(converted(JSON.stringify(filter), text).ready[1], event(JSON.stringify(filter)) + event(text));
  const [, ready = ''] = converted(JSON.stringify({ ...filter, usage: null }), text).ready;
  t.deepEqual(ready.trim().split('\n\n').map(parse), [filter, JSON.parse(text)]);
});

test('JSON on several lines stays one event', (t) => {
  const { ready } = converted(JSON.stringify(JSON.parse(text), undefined, 2));
  t.deepEqual(ready, [event(text)]);
});

test('is complete only by [DONE] or a finish_reason', (t) => {
  t.true(converted(text, '[DONE]').converter.complete(one));
  t.true(converted(text, finish).converter.complete(one));
  t.true(converted(text, finish, usageOnly).converter.complete(one));
  t.false(converted(text).converter.complete(one));
  t.false(converted(role, text, usageOnly).converter.complete(one));
});

test('[DONE] without any answer completes nothing', (t) => {
  t.false(converted('[DONE]').converter.complete(one));
  t.false(converted(role, '[DONE]').converter.complete(one));
});

test('several choices are complete when all requested ones are finished', (t) => {
  const second = chunk({ content: 'b' }, { index: 1 });
  const secondFinish = chunk({}, { index: 1, finish_reason: 'length' });
  const two = () => 2;
  t.false(converted(text, second, finish).converter.complete(two));
  t.true(converted(text, second, finish, secondFinish).converter.complete(two));
  t.false(converted(text, finish).converter.complete(two), 'the second has not begun');
  t.false(converted(text, finish, second).converter.complete(one), 'one more than requested has begun');
});

test('an error in the stream ends it, with what the backend said', (t) => {
  const { converter } = converted(text);
  const error = t.throws(() => converter.take('{"error":{"message":"out of memory"}}'), { instanceOf: BackendError });
  t.like(error, { fault: 'said', message: 'the backend answered an error', said: { words: 'out of memory' } });
  t.false(converter.complete(one));
});

for (const data of ['{"choices":[{"ind', 'hello', '[]', '7', '{"choices":[{"index":"0"}]}']) {
  test(`is not a chunk: ${data}`, (t) => {
    const { converter } = converted(text);
    t.is(t.throws(() => converter.take(data), { instanceOf: BackendError })?.fault, 'unreadable');
  });
}

test('data without a token is rejected beyond a limit', (t) => {
  const { converter } = converted();
  let taken = 0;
  const error = t.throws(
    () => {
      for (; taken < 100_000; taken++) converter.take(role);
    },
    { instanceOf: BackendError },
  );
  t.is(error?.fault, 'unreadable');
  t.true(taken * role.length < 2_000_000);
});

test('keeps text, reasoning and calls for counting, and their length beyond the sample', (t) => {
  const call = (name: string | undefined, part: string) =>
    chunk({ tool_calls: [{ index: 0, id: 'c', type: 'function', function: { name, arguments: part } }] });
  const { converter } = converted(role, chunk({ reasoning: 'Hm. ' }), text, call('f', '{"a"'), call(undefined, ':1}'));
  t.deepEqual(converter.text(), { sample: 'Hm. Grüßef{"a":1}', characters: 17 });

  const long = chunk({ content: 'x'.repeat(300_000) });
  const { sample, characters } = converted(...Array.from({ length: 10 }, () => long)).converter.text();
  t.is(characters, 3_000_000);
  t.true(sample.length >= 1_000_000 && sample.length <= 1_300_000);
});

test('an event with an error is not part of the answer, also if it has choices', (t) => {
  for (const choices of [[], [{ index: 0, delta: { content: 'a' } }]]) {
    const converter = createChunkConverter(chatKind, streamOptions({ model: 'small-chat' }));
    const event = JSON.stringify({ model: 'small-chat', choices, error: { message: 'out of memory' } });
    t.throws(() => converter.take(event), { instanceOf: BackendError });
  }
});
