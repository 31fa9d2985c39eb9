import test from 'ava';
import { BackendError } from '../../../../shared/endpoints/answers/backend-error.ts';
import { chatKind } from '../../../../shared/endpoints/chat/chat.ts';
import { presentAnswer } from '../../../../shared/endpoints/chat-stream/choices-answers.ts';
import { createAnswerAssembler } from '../../../support/chat-assembler.ts';
import { streamOptions } from '../../../support/stream-options.ts';

const head = { id: 'x', object: 'chat.completion.chunk', created: 1, model: 'upstream-model' };
const usage = { prompt_tokens: 3, completion_tokens: 5, total_tokens: 8, vendor: { kept: 1 } };
const one = () => 1;

type Part = { index?: number; finish_reason?: string | null; [name: string]: unknown };

function chunk(delta: unknown, part: Part = {}, more: object = {}): string {
  return JSON.stringify({ ...head, choices: [{ index: 0, delta, finish_reason: null, ...part }], ...more });
}
const finish = chunk({}, { finish_reason: 'stop' });

function assembled(...data: string[]) {
  const assembler = createAnswerAssembler(streamOptions({ model: 'm' }));
  for (const item of data) assembler.take(item);
  return { assembler, answer: JSON.parse(assembler.answer().text) };
}

const messageOf = (...deltas: unknown[]) => assembled(...deltas.map((delta) => chunk(delta))).answer.choices[0].message;

/** What every message has. */
const assistant = { role: 'assistant', refusal: null };

test("is a chat completion under the client's name of the model, with the backend's usage in full", (t) => {
  const { assembler, answer } = assembled(
    chunk({ role: 'assistant', content: '' }, {}, { system_fingerprint: null, usage: null }),
    chunk({ content: 'Grü' }, {}, { system_fingerprint: 'f', obfuscation: 'abc', usage: { prompt_tokens: 1 } }),
    chunk({ content: 'ße' }, {}, { service_tier: 'default', created: 2 }),
    finish,
    JSON.stringify({ ...head, choices: [], usage, timings: { ms: 4 } }),
    '[DONE]',
  );
  t.true(assembler.complete(one));
  t.deepEqual(answer, {
    ...{ id: 'x', object: 'chat.completion', created: 1, model: 'm', system_fingerprint: 'f', service_tier: 'default' },
    choices: [{ index: 0, message: { ...assistant, content: 'Grüße' }, logprobs: null, finish_reason: 'stop' }],
    ...{ usage, timings: { ms: 4 } },
  });
  t.is(
    presentAnswer(
      assembler.answer(),
      { promptTokens: 3, completionTokens: 5 },
      { ...streamOptions({ model: 'm' }), kind: chatKind },
    ),
    assembler.answer().text,
  );
});

test('the counted usage is used if no usage can be read', (t) => {
  for (const reported of [undefined, null, {}, { prompt_tokens: -1, completion_tokens: 1 }, 'many']) {
    const { assembler } = assembled(chunk({ content: 'a' }, {}, { usage: reported }), finish);
    t.is(assembler.answer().usage, undefined);
    const presented = JSON.parse(
      presentAnswer(
        assembler.answer(),
        { promptTokens: 30, completionTokens: 50 },
        { ...streamOptions({ model: 'm' }), kind: chatKind },
      ),
    );
    t.deepEqual(presented.usage, { prompt_tokens: 30, completion_tokens: 50, total_tokens: 80 });
  }
});

test('choices are in order, each with its own text, end and latest other fields', (t) => {
  const { answer } = assembled(
    chunk({ content: 'b' }, { index: 1, content_filter: { hate: false } }),
    chunk({ content: 'a' }, { stop_reason: null }),
    chunk({ content: 'B' }, { index: 1, content_filter: { hate: true } }),
    chunk({}, { index: 1, finish_reason: 'length', content_filter: null }),
    chunk(null, { finish_reason: 'stop' }),
    chunk({ content: '' }, { finish_reason: '' }),
  );
  const message = assistant;
  t.deepEqual(answer.choices, [
    { index: 0, message: { ...message, content: 'a' }, logprobs: null, finish_reason: 'stop', stop_reason: null },
    {
      ...{ index: 1, message: { ...message, content: 'bB' }, logprobs: null, finish_reason: 'length' },
      content_filter: { hate: true },
    },
  ]);
});

test('log probabilities become one list, for text and for refusals', (t) => {
  const of = (token: string) => [{ token, logprob: -1 }];
  const { answer } = assembled(
    chunk({ content: '' }),
    chunk({ content: 'a' }, { logprobs: { content: of('a'), refusal: null } }),
    chunk({ content: 'b' }, { logprobs: { content: of('b'), refusal: null } }),
    chunk({ refusal: 'c' }, { index: 1, logprobs: { content: null, refusal: of('c') } }),
    chunk({ refusal: 'd' }, { index: 1, logprobs: { content: null, refusal: of('d') } }),
    chunk({}, { finish_reason: 'stop', logprobs: null }),
  );
  t.deepEqual(answer.choices[0].logprobs, { content: [...of('a'), ...of('b')], refusal: null });
  t.deepEqual(answer.choices[1].logprobs, { content: null, refusal: [...of('c'), ...of('d')] });
});

test('reasoning, refusals, unknown texts and lists are joined; of anything else the latest value counts', (t) => {
  t.deepEqual(
    messageOf(
      { role: 'assistant', content: '', refusal: null, reasoning_content: 'Hm' },
      { role: 'assistant', reasoning_content: '.', reasoning: 'A', annotations: [{ url: 1 }], mood: { calm: true } },
      { role: '', reasoning: 'B', annotations: [{ url: 2 }], mood: { calm: false }, seconds: 1 },
      { role: null, content: 'Yes', annotations: null, mood: null, seconds: 2 },
    ),
    {
      ...{ role: 'assistant', content: 'Yes', refusal: null, reasoning_content: 'Hm.', reasoning: 'AB' },
      ...{ annotations: [{ url: 1 }, { url: 2 }], mood: { calm: false }, seconds: 2 },
    },
  );
  t.deepEqual(messageOf({ content: '' }, { refusal: 'I ' }, { refusal: 'will not' }), {
    ...{ role: 'assistant', content: null, refusal: 'I will not' },
  });
});

test('a message without text is empty or null, as the backend began it', (t) => {
  t.deepEqual(messageOf({ role: 'assistant', content: '' }), { ...assistant, content: '' });
  t.deepEqual(messageOf({ role: 'assistant', content: null }), { ...assistant, content: null });
  t.deepEqual(messageOf({}), { ...assistant, content: null });
});

test('a content that mixes text and parts loses nothing', (t) => {
  const thought = { type: 'thinking', thinking: 'Hm' };
  t.deepEqual(messageOf({ content: '' }, { content: [thought] }, { content: 'Yes' }).content, [
    thought,
    { type: 'text', text: 'Yes' },
  ]);
});

const call = (index: number | undefined, rest: object) => ({ tool_calls: [{ index, ...rest }] });
const named = (name: string | null, args: string) => ({ function: { name, arguments: args } });

test('tool calls are joined by their index, are in the order of their beginnings, and have no index in the result', (t) => {
  const deltas = [
    { role: 'assistant', content: '' },
    call(1, { id: 'c1', type: 'function', ...named('time', '') }),
    call(0, { id: 'c0', type: 'function', ...named('weather', '') }),
    call(1, { function: { arguments: '{"a"' } }),
    call(0, { function: { arguments: '{}' } }),
    call(1, { function: { arguments: ':1}' } }),
  ];
  t.deepEqual(messageOf(...deltas), {
    ...{ ...assistant, content: null },
    tool_calls: [
      { id: 'c1', type: 'function', function: { name: 'time', arguments: '{"a":1}' } },
      { id: 'c0', type: 'function', function: { name: 'weather', arguments: '{}' } },
    ],
  });
});

const manners = {
  'repeats id, type and name with each part': (rest: string) =>
    call(0, { id: 'c', type: 'function', ...named('f', rest) }),
  'sends them empty after the first': (rest: string) => call(0, { id: '', type: '', ...named('', rest) }),
  'sends them null after the first': (rest: string) => call(0, { id: null, type: null, ...named(null, rest) }),
  'sends another id for each part': (rest: string) => call(0, { id: `c${rest}`, ...named(null, rest) }),
  'numbers nothing': (rest: string) => call(undefined, { function: { arguments: rest } }),
};

for (const [manner, part] of Object.entries(manners)) {
  test(`the call of a backend that ${manner} is one call`, (t) => {
    const first = call(0, { id: 'c', type: 'function', ...named('f', '{') });
    const [called, ...others] = messageOf(first, part('"a":1'), part('}')).tool_calls;
    t.deepEqual(others, []);
    t.like(called, { type: 'function', function: { name: 'f', arguments: '{"a":1}' } });
  });
}

test('calls with equal or missing indexes are all kept', (t) => {
  for (const index of [0, undefined]) {
    const parts = ['a', 'b', 'c'].map((id) => call(index, { id, ...named('f', `{"${id}":1}`) }));
    t.deepEqual(
      messageOf(...parts).tool_calls,
      ['a', 'b', 'c'].map((id) => ({ id, type: 'function', function: { name: 'f', arguments: `{"${id}":1}` } })),
    );
  }
});

test('calls without indexes and ids are all kept', (t) => {
  const parts = [named('f', '{"a"'), { function: { arguments: ':1}' } }, named('g', '{}'), named('g', '{"b":2}')];
  t.deepEqual(
    messageOf(...parts.map((part) => call(undefined, part))).tool_calls.map(
      (called: { function: object }) => called.function,
    ),
    [
      { name: 'f', arguments: '{"a":1}' },
      { name: 'g', arguments: '{}' },
      { name: 'g', arguments: '{"b":2}' },
    ],
  );
});

test('a message in the form of a whole answer is accepted', (t) => {
  const event = JSON.stringify({
    ...head,
    choices: [{ index: 0, message: { content: 'Yes' }, finish_reason: 'stop' }],
  });
  t.like(assembled(event).answer.choices[0], { message: { role: 'assistant', content: 'Yes' }, finish_reason: 'stop' });
});

test('many choices in one event cost no more than each in its own event', (t) => {
  const logprobs = { content: [{ token: 'a', top_logprobs: Array(20).fill({ token: 'b', logprob: -1 }) }] };
  const choices = Array.from({ length: 20 }, (_, index) => ({ index, delta: { content: 'a' }, logprobs }));
  const event = JSON.stringify({ ...head, choices });
  const { answer } = assembled(...Array<string>(300).fill(event));
  t.is(answer.choices[19].logprobs.content.length, 300);
});

test('a legacy function call, and a call of another kind of tool, are kept', (t) => {
  const functionCall = [{ function_call: { name: 'f', arguments: '' } }, { function_call: { arguments: '{}' } }];
  t.deepEqual(messageOf({ content: null }, ...functionCall, { function_call: null }), {
    ...{ ...assistant, content: null, function_call: { name: 'f', arguments: '{}' } },
  });
  const custom = [
    call(0, { id: 'c', type: 'custom', custom: { name: 'sql', input: '' } }),
    call(0, { custom: { input: 'select ' } }),
    call(0, { custom: { input: '1' } }),
  ];
  t.deepEqual(messageOf(...custom).tool_calls, [
    { id: 'c', type: 'custom', custom: { name: 'sql', input: 'select 1' } },
  ]);
});

test('is complete by [DONE], or by an end of each choice that was asked for', (t) => {
  const text = chunk({ content: 'a' });
  t.false(assembled(text).assembler.complete(one));
  t.true(assembled(text, '[DONE]').assembler.complete(one));
  t.true(assembled(text, finish).assembler.complete(one));
  t.false(assembled(text, finish).assembler.complete(() => 2));
  t.false(assembled('[DONE]').assembler.complete(one));
});

test('an invalid event, or one with an error, ends it', (t) => {
  for (const [data, fault] of [
    ['hello', 'unreadable'],
    ['[]', 'unreadable'],
    ['{"error":{"message":"out of memory"}}', 'said'],
    [chunk({ content: 'a' }, {}, { error: { message: 'no' } }), 'said'],
  ] as const) {
    t.is(t.throws(() => assembled(data), { instanceOf: BackendError })?.fault, fault);
  }
});

test('parts of a wrong type are skipped', (t) => {
  const { answer } = assembled(
    chunk({ content: 'a', tool_calls: 'x', function_call: 5 }, { logprobs: 'x' }),
    chunk({ tool_calls: [null, 1, [], 'x'] }),
    chunk({ content: { not: 'text' } }, { index: 1 }),
  );
  t.deepEqual(answer.choices[0].message, { ...assistant, content: 'a' });
  t.is(answer.choices.length, 2);
});
