import test from 'ava';
import { estimateMessagePrompt, messagesPrompt } from '../../../../shared/endpoints/messages/message-prompt.ts';
import { messages } from '../../../../shared/endpoints/messages/messages.ts';
import { callOf } from '../../../support/endpoints/endpoint-call.ts';

const estimate = (request: object) => estimateMessagePrompt(request, JSON.stringify(request));
const user = (...content: object[]) => ({ messages: [{ role: 'user', content }] });
const data = (bytes: number) => 'A'.repeat((bytes / 3) * 4);
const image = (bytes: number) => ({
  ...{ type: 'image', source: { type: 'base64', media_type: 'image/png', data: data(bytes) } },
});
const pdf = (bytes: number) => ({
  ...{ type: 'document', source: { type: 'base64', media_type: 'application/pdf', data: data(bytes) } },
});

test('an image whose size cannot be read counts 1,500 tokens, also in the result of a tool', (t) => {
  for (const bytes of [3, 300_000]) {
    const [direct, ofTool] = [
      user(image(bytes)),
      user({ type: 'tool_result', tool_use_id: 'x', content: [image(bytes)] }),
    ].map(estimate);
    for (const tokens of [direct ?? 0, ofTool ?? 0]) t.true(tokens > 1_500 && tokens < 1_600, `${tokens}`);
  }
  const byAddress = (url: string) => user({ type: 'image', source: { type: 'url', url } });
  t.true(estimate(byAddress('https://a.example/a.png')) > 1_500);
  const long = byAddress(`https://a.example/${'a/'.repeat(500)}a.png`);
  t.true(estimate(long) > 1_700, 'its address counts as text');
});

test('a document counts a token for 64 bytes, and a plain text as text', (t) => {
  t.is(estimate(user(pdf(30_720))) - estimate(user(pdf(6))), 480 - 1);
  const text = { type: 'document', source: { type: 'text', media_type: 'text/plain', data: 'word '.repeat(1_000) } };
  const tokens = estimate(user(text));
  t.true(tokens > 1_000 && tokens < 2_500, `${tokens}`);
});

test('everything in the request counts: system, tools, names of fields, and each message', (t) => {
  const long = 'word '.repeat(400);
  const base = { messages: [{ role: 'user', content: 'Hi' }] };
  for (const more of [{ system: long }, { tools: [{ name: 'f', description: long }] }, { [long]: 1 }])
    t.true(estimate({ ...base, ...more }) > 400, JSON.stringify(more).slice(0, 50));
  const turns = (count: number) => ({ messages: Array.from({ length: count }, () => base.messages[0]) });
  t.true(estimate(turns(20)) - estimate(turns(10)) >= 10 * 4);
});

test('any object can be estimated, valid or not', (t) => {
  for (const given of [
    undefined,
    null,
    5,
    {},
    [null],
    [[[]]],
    [{ content: 5 }],
    [{ content: [null, { type: 'image' }] }],
  ])
    t.true(estimate({ messages: given }) > 0);
});

test('the reservation is the estimate and the limit', (t) => {
  const call = callOf(messages, { messages: [{ role: 'user', content: 'Hi' }], max_tokens: 9 });
  const promptTokens = estimateMessagePrompt(JSON.parse(call.payload), call.payload);
  t.like(call.cost, {
    promptTokens,
    reservedTokens: promptTokens + 9,
    promptField: 'messages',
    limitField: 'max_tokens',
  });
});

test('the tokenizer gets every text that the model reads, once', (t) => {
  const content = [
    { type: 'text', text: 'a' },
    { type: 'tool_use', id: 'no', name: 'no', input: { text: 'b' } },
    { type: 'tool_result', tool_use_id: 'no', content: [{ type: 'text', text: 'c' }] },
    { type: 'thinking', thinking: 'd', signature: 'no' },
    { type: 'image', source: { type: 'base64', data: 'no' } },
    { type: 'document', title: 'g', context: 'h', source: { type: 'text', media_type: 'text/plain', data: 'e' } },
    { type: 'document', source: { type: 'content', content: [{ type: 'text', text: 'f' }] } },
    { type: 'document', source: { type: 'base64', data: 'AAAA' } },
  ];
  t.deepEqual(messagesPrompt({ system: [{ type: 'text', text: 's' }], messages: [{ role: 'user', content }] }), {
    texts: ['s', 'a', '{"text":"b"}', 'c', 'd', 'g', 'h', 'e', 'f'],
    // Around the message, of the signature, the image and the document.
    tokens: 4 + 1 + 1_500 + 1,
  });
  t.deepEqual(messagesPrompt({ messages: [{ role: 'user', content: 'x' }] }), { texts: ['x'], tokens: 4 });
  const outputConfig = { format: { type: 'json_schema', schema: { title: 'x' } } };
  t.deepEqual(messagesPrompt({ output_config: outputConfig }).texts, [JSON.stringify(outputConfig)]);
  t.deepEqual(messagesPrompt({}), { texts: [], tokens: 0 });
});

test('all arguments of a tool count, whatever their names, and so do the tools themselves', (t) => {
  const input = { location: 'Köln', days: ['Monday'], options: { unit: 'celsius' } };
  const tools = [{ name: 'weather', description: 'What it is like', input_schema: { type: 'object' } }];
  const messages = [{ role: 'assistant', content: [{ type: 'tool_use', input }] }];
  t.deepEqual(messagesPrompt({ messages, tools }).texts, [JSON.stringify(input), JSON.stringify(tools[0])]);
});
