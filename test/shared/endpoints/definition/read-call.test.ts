import test from 'ava';
import { parseJsonBody } from '../../../../ingress/listener/json-body.ts';
import { ApiError } from '../../../../shared/errors.ts';
import { readChat } from '../../../support/read-chat.ts';

const model = { tier: 'guest', pool: 'default', backends: ['a'], outputTokensMax: 4_096 };
const models = Object.assign(Object.create(null), { 'small-chat': model, m: model });
const callOf = (text: string) => readChat(parseJsonBody(new TextEncoder().encode(text)), models);
const messages = [{ role: 'user', content: 'Hi' }];
const withFields = (fields: object) => JSON.stringify({ model: 'small-chat', messages, ...fields });

/** The error code, then every fault of a body, in the order of the message. */
function faultsOf(text: string): string[] {
  try {
    callOf(text);
    return [];
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    return [error.code, ...error.message.split('; ')];
  }
}

test('known fields are parsed, and all others reach the backend unchanged, without the model', (t) => {
  const fields = { temperature: 0.5, x_vendor: { a: [1, null, 'é'] }, top_k: 5, user: null };
  const call = callOf(withFields(fields));
  t.like(call, { model: 'small-chat', stream: false, includeUsage: false });
  const { user: _absent, ...present } = fields;
  t.deepEqual(JSON.parse(call.payload), { messages, ...present });
  t.false(call.payload.includes('"model"'));
});

test('the output limit is removed from the body and returned separately', (t) => {
  for (const [fields, limit] of [
    [{}, 4_096],
    [{ max_tokens: 7 }, 7],
    [{ max_completion_tokens: 8, max_tokens: null }, 8],
    [{ max_tokens: 1, max_completion_tokens: 4_000 }, 4_000],
  ] as const) {
    const call = callOf(withFields({ ...fields, seed: 1 }));
    t.deepEqual(JSON.parse(call.payload), { messages, seed: 1 });
    t.is(call.outputTokensMax, limit);
    t.is(call.cost.outputTokensMax, limit);
  }
});

test('a stream always requests usage, in addition to the stream options of the client', (t) => {
  const plain = callOf(withFields({ stream: true }));
  t.like(plain, { stream: true, includeUsage: false });
  t.deepEqual(JSON.parse(plain.payload).stream_options, { include_usage: true });

  const options = { include_usage: true, include_obfuscation: false };
  const asked = callOf(withFields({ stream: true, stream_options: options }));
  t.true(asked.includeUsage);
  t.deepEqual(JSON.parse(asked.payload).stream_options, options);

  const refused = callOf(withFields({ stream: true, stream_options: { include_usage: false } }));
  t.false(refused.includeUsage);
  t.deepEqual(JSON.parse(refused.payload).stream_options, { include_usage: true });
  const often = callOf(
    withFields({ stream: true, stream_options: { include_usage: true, continuous_usage_stats: true } }),
  );
  t.deepEqual(JSON.parse(often.payload).stream_options, { include_usage: true }, 'that is the setting of the operator');

  for (const stream of [false, null, undefined]) {
    const whole = callOf(withFields({ stream }));
    t.false(whole.stream);
    t.false(whole.payload.includes('stream_options'));
  }
});

test('a non-streamed reply of known fields is assembled, and the stream fields are left to the worker', (t) => {
  for (const said of [{}, { stream: false }, { stream: null, stream_options: null }]) {
    const call = callOf(withFields({ ...said, top_k: 5 }));
    t.like(call, { assembled: true, stream: false, includeUsage: false });
    t.deepEqual(JSON.parse(call.payload), { messages, top_k: 5 });
  }
});

test('a request that may not work as a stream is passed on as sent, and a stream is not assembled', (t) => {
  const unknown = callOf(withFields({ stream: false, stream_options: null, use_beam_search: true }));
  t.like(unknown, { assembled: false, stream: false });
  t.deepEqual(JSON.parse(unknown.payload), { messages, use_beam_search: true });
  const streamed = callOf(withFields({ stream: true }));
  t.like(streamed, { assembled: false, stream: true });
  t.false('stream' in JSON.parse(streamed.payload), 'the worker says whether it is one');
});

test('a field of the wrong type is named by its path', (t) => {
  const expected: [object, string][] = [
    [
      { messages: [...messages, messages[0], { role: 'user', content: 5 }] },
      'messages[2].content: expected a string or an array',
    ],
    [{ messages: [{ role: 'user' }] }, 'messages[0].content: expected a string or an array'],
    [{ messages: [{ role: 'user', content: null }] }, 'messages[0].content: expected a string or an array'],
    [{ messages: [{ role: 'user', content: [{ text: 'no type' }] }] }, 'messages[0].content'],
    [{ messages: [{ role: 'robot', content: 'Hi' }] }, 'messages[0].role: '],
    [{ messages: [{ content: 'Hi' }] }, 'messages[0].role: '],
    [{ messages: ['Hi'] }, 'messages[0]: expected object'],
    [{ messages: [] }, 'messages: '],
    [{ messages: 'Hi' }, 'messages: expected an array'],
    [{ messages: undefined }, 'messages: expected an array'],
    [{ model: undefined }, 'model: expected string, received undefined'],
    [{ model: '' }, 'model: '],
    [{ model: 5 }, 'model: expected string, received number'],
    [{ model: 'constructor' }, 'model: there is no such model'],
    [{ stream: 'yes' }, 'stream: expected boolean, received string'],
    [{ stream_options: { include_usage: true } }, 'stream_options: is only allowed with stream: true'],
    [{ stream: true, stream_options: { include_usage: 1 } }, 'stream_options.include_usage: expected boolean'],
    [{ max_tokens: 0 }, 'max_tokens: '],
    [{ max_tokens: 1.5 }, 'max_tokens: '],
    [{ max_completion_tokens: '5' }, 'max_completion_tokens: '],
    [{ n: 129 }, 'n: '],
    [{ temperature: 2.1 }, 'temperature: '],
    [{ top_p: -0.1 }, 'top_p: '],
    [{ presence_penalty: 3 }, 'presence_penalty: '],
    [{ frequency_penalty: -3 }, 'frequency_penalty: '],
    [{ stop: [1] }, 'stop: expected a string or an array of at most 64 strings'],
    [{ logprobs: 1 }, 'logprobs: '],
    [{ top_logprobs: 21 }, 'top_logprobs: '],
    [{ logit_bias: { 50256: 'x' } }, 'logit_bias: expected an object of numbers'],
    [{ seed: 'x' }, 'seed: '],
    [{ user: 1 }, 'user: '],
    [{ tools: [{}] }, 'tools[0].type: '],
    [{ tool_choice: 1 }, 'tool_choice: expected a string or an object'],
    [{ parallel_tool_calls: 'x' }, 'parallel_tool_calls: '],
    [{ response_format: {} }, 'response_format.type: '],
  ];
  for (const [fields, fault] of expected) {
    const [code, first, ...others] = faultsOf(withFields(fields));
    t.is(code, 'VALIDATION_ERROR', fault);
    t.true(first?.startsWith(fault), `${first} is not ${fault}`);
    t.deepEqual(others, []);
  }
});

test('all invalid fields are named, at most ten', (t) => {
  t.deepEqual(faultsOf('{}'), [
    'VALIDATION_ERROR',
    'model: expected string, received undefined',
    'messages: expected an array',
  ]);
  const many = faultsOf(withFields({ messages: Array(12).fill({ role: 'user', content: 5 }) }));
  t.is(many.length, 12);
  t.is(many[10], 'messages[9].content: expected a string or an array');
  t.is(many[11], 'and more');
});

test('accepts messages of every role, with parts, tool calls, and no content where it is optional', (t) => {
  const conversation = [
    { role: 'system', content: 'Be kind.' },
    { role: 'developer', content: 'Be brief.' },
    {
      role: 'user',
      content: [
        { type: 'text', text: 'Hi' },
        { type: 'image_url', image_url: { url: 'x' } },
      ],
    },
    { role: 'assistant', content: null, tool_calls: [{ id: '1', type: 'function', function: { name: 'f' } }] },
    { role: 'assistant', tool_calls: [] },
    { role: 'tool', tool_call_id: '1', content: '42' },
    { role: 'function', name: 'f', content: null },
    { role: 'user', content: '' },
  ];
  t.deepEqual(JSON.parse(callOf(withFields({ messages: conversation })).payload).messages, conversation);
});

test('numbers reach the backend as they were written', (t) => {
  const numbers: Record<string, string> = {
    seed: '9223372036854775807',
    x_big: '123456789012345678901234567890',
    x_huge: '1e400',
    x_tiny: '1E-400',
    x_long: '1234567.8901234567890',
    x_plain: '0.1',
  };
  const fields = Object.entries(numbers).map(([name, number]) => `"${name}":${number},"in":{"list":[${number}]}`);
  for (const field of fields) {
    const { payload: body } = callOf(`{"model":"m","messages":[{"role":"user","content":"Hi"}],${field}}`);
    t.true(body.includes(field), `${field} became ${body}`);
  }
  const stream = callOf(
    '{"model":"m","messages":[{"role":"user","content":"Hi"}],"stream":true,"stream_options":{"x":9007199254740993}}',
  );
  t.true(stream.payload.includes('"stream_options":{"x":9007199254740993,"include_usage":true}'), stream.payload);
});

test('digits in a string are not changed', (t) => {
  const content = 'Add 1234567890123456789 and 1e400, "9007199254740993"';
  const { payload: body } = callOf(withFields({ messages: [{ role: 'user', content }] }));
  t.is(JSON.parse(body).messages[0].content, content);
});

test('a key named like the prototype is an ordinary key', (t) => {
  const inner = '"x":{"__proto__":{"polluted":1},"constructor":2}';
  for (const number of ['1', '9007199254740993']) {
    const text = `{"model":"m","messages":[{"role":"user","content":"Hi"}],"__proto__":{"polluted":1},${inner},"n_":${number}}`;
    const { payload: body } = callOf(text);
    t.true(body.includes('"__proto__":{"polluted":1}') && body.includes(inner), body);
    t.is(({} as { polluted?: unknown }).polluted, undefined);
  }
});

test('a number is kept as written at any depth that a body may have', (t) => {
  const nested = `${'['.repeat(100)}9007199254740993${']'.repeat(100)}`;
  t.true(callOf(`{"model":"m","messages":[{"role":"user","content":"Hi"}],"a":${nested}}`).payload.includes(nested));
});

test('a number of more than 15 digits with more than 50,000 values is rejected, and either alone is accepted', (t) => {
  const bodyOf = (number: string, ones: number) =>
    `{"model":"m","messages":[{"role":"user","content":"a, b"}],"seed":${number},"a":[1${',1'.repeat(ones)}]}`;
  const long = '9007199254740993';
  const message = 'body: has more than 50000 values and a number of more than 15 digits';
  t.deepEqual(faultsOf(bodyOf(long, 49_997)), ['VALIDATION_ERROR', message]);
  t.true(callOf(bodyOf(long, 49_996)).payload.includes(long));
  t.true(callOf(bodyOf('7', 100_000)).payload.includes('"seed":7'));
});

test('a body full of faults is rejected for the first ones and is not read any further', (t) => {
  const looked = { items: 0 };
  const watched = (items: unknown[]) =>
    new Proxy(items, {
      get(target, name, receiver) {
        if (typeof name === 'string' && /^\d+$/.test(name)) looked.items++;
        return Reflect.get(target, name, receiver);
      },
    });
  for (const messages of [
    watched(Array(500_000).fill(0)),
    [{ role: 'user', content: watched(Array(500_000).fill(0)) }],
  ]) {
    looked.items = 0;
    const error = t.throws(() => readChat({ value: { model: 'm', messages }, text: '{}' }, models), {
      instanceOf: ApiError,
    });
    t.regex(error?.message ?? '', /; and more$/);
    t.true(looked.items < 100, `${looked.items} items were read`);
  }
});
