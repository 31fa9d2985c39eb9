import test from 'ava';
import fc from 'fast-check';
import { chat } from '../../../../shared/endpoints/chat/chat.ts';
import {
  chatPrompt,
  chatRequestSchema,
  isPlainRequest,
  publishedRequestSchema,
  roles,
} from '../../../../shared/endpoints/chat/chat-request.ts';
import { createListedFields } from '../../../../shared/endpoints/fields/listed-fields.ts';
import { parsePlanFile } from '../../../../shared/plan-file/plan-file.ts';
import { planText } from '../../../support/plan-text.ts';

const parsed = parsePlanFile(planText());
if ('issues' in parsed) throw new Error('the plan file of the tests is invalid');
const listedFields = createListedFields(parsed.planFile);

const messages = [{ role: 'user', content: 'Hi' }];
const usual = { model: 'small-chat', messages };

test('a typical request is plain', (t) => {
  for (const request of [
    usual,
    {
      ...usual,
      max_tokens: 16,
      temperature: 0.7,
      top_p: 1,
      n: 1,
      user: 'u',
      presence_penalty: -2,
      frequency_penalty: 2,
    },
    { ...usual, stream: true, stream_options: { include_usage: true }, max_completion_tokens: 16 },
    {
      ...usual,
      stream: false,
      messages: [
        { role: 'system', content: '' },
        { role: 'user', content: 'a', name: 'b' },
      ],
    },
  ]) {
    t.true(isPlainRequest(request), JSON.stringify(request));
  }
});

test('a request that the schema or the lists reject or must inspect is not plain', (t) => {
  const fields: [string, ...unknown[]][] = [
    ['model', '', 1, null],
    [
      'messages',
      [],
      {},
      'a',
      [null],
      [[]],
      [{}],
      [{ role: 'user' }],
      [{ role: 'owner', content: '' }],
      [{ content: '' }],
    ],
    ['messages', [{ role: 'user', content: null }], [{ role: 'user', content: [] }], [{ ...messages[0], images: [] }]],
    ['stream', 1, null],
    ['stream_options', {}, { include_usage: true }, null],
    ['max_tokens', 0, -1, 1.5, '1', null, 2 ** 53],
    ['n', 0, 129, 1.5],
    ['temperature', -0.1, 2.1, Number.POSITIVE_INFINITY],
    ['tools', []],
    ['Model', 'small-chat'],
    ['__proto__x', 1],
  ];
  for (const [name, ...values] of fields) {
    for (const value of values)
      t.false(isPlainRequest({ ...usual, [name]: value }), `${name} ${JSON.stringify(value)}`);
  }
  t.false(isPlainRequest(JSON.parse(`{"model":"m","messages":${JSON.stringify(messages)},"__proto__":{"a":1}}`)));
  t.false(isPlainRequest({ messages }));
  t.false(isPlainRequest({ model: 'small-chat' }));
  t.false(isPlainRequest({ ...usual, stream: true, stream_options: { include_usage: true, more: 1 } }));
});

test('a plain request passes both schemas and the lists, and parsing it changes nothing', (t) => {
  const around = (...bounds: number[]) =>
    fc.constantFrom(...bounds, ...bounds.map((bound) => bound + 1), ...bounds.map((bound) => bound - 1), 0.5);
  const settings = {
    stream: fc.boolean(),
    stream_options: fc.record({ include_usage: fc.boolean() }, { requiredKeys: [] }),
    max_tokens: around(1, Number.MAX_SAFE_INTEGER),
    max_completion_tokens: around(1, 4_096),
    n: around(1, 128),
    temperature: around(0, 2),
    top_p: around(0, 1),
    presence_penalty: around(-2, 2),
    frequency_penalty: around(-2, 2),
    user: fc.string(),
  };
  const message = fc.record({ role: fc.constantFrom(...roles), content: fc.string(), name: fc.string() });
  const names = ['role', 'content', 'name', 'Content', 'images', 'tools', 'tool_calls', 'model', 'messages', 'seed'];
  /** Usually empty, otherwise fields of an unusual type or in an unusual place. */
  const odd = fc.oneof(
    { weight: 9, arbitrary: fc.constant({}) },
    { weight: 1, arbitrary: fc.dictionary(fc.constantFrom(...names, ...Object.keys(settings)), fc.jsonValue()) },
  );
  const request = fc
    .record({
      model: fc.constantFrom('small-chat', 'other', ''),
      messages: fc.array(fc.tuple(message, odd), { maxLength: 3 }),
      settings: fc
        .subarray(Object.keys(settings), { maxLength: 3 })
        .chain((chosen) =>
          fc.record(Object.fromEntries(Object.entries(settings).filter(([name]) => chosen.includes(name)))),
        ),
      odd,
    })
    .map(({ model, messages, settings, odd }) => ({
      ...{ model, messages: messages.map(([usual, odd]) => ({ ...usual, ...odd })) },
      ...{ ...settings, ...odd },
    }));
  let plain = 0;
  fc.assert(
    fc.property(request, (sent) => {
      if (!isPlainRequest(sent)) return;
      plain++;
      for (const schema of [chatRequestSchema, publishedRequestSchema]) {
        const { success, data } = schema.safeParse(sent);
        if (!success) throw new Error('the schema rejects it');
        t.deepEqual(data as unknown, sent);
      }
      t.deepEqual(listedFields.issuesIn(sent, 'small-chat', chat.request.fields), []);
    }),
    { numRuns: 2_000 },
  );
  t.true(plain > 100, `${plain} of them were plain`);
});

test('the tokenizer gets what a template may write into the prompt besides the messages', (t) => {
  const documents = [{ title: 'a', text: 'b' }];
  const kwargs = { preamble: 'c' };
  const format = { type: 'json_schema', json_schema: { name: 'd', schema: { title: 'e' } } };
  const messages = [{ role: 'user', content: 'Hi' }];
  const body = { messages, documents, chat_template_kwargs: kwargs, response_format: format, metadata: { no: 'f' } };
  t.deepEqual(chatPrompt(body), {
    texts: ['Hi', ...[documents, kwargs, format].map((each) => JSON.stringify(each))],
    tokens: 4,
  });
  t.deepEqual(chatPrompt({ messages, ...{ documents: null, response_format: 'text' } }), { texts: ['Hi'], tokens: 4 });
});
