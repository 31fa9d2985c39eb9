import test from 'ava';
import type { z } from 'zod';
import { parseJsonBody } from '../../../../ingress/listener/json-body.ts';
import { chat } from '../../../../shared/endpoints/chat/chat.ts';
import type { Endpoint } from '../../../../shared/endpoints/definition/endpoint.ts';
import { endpoints } from '../../../../shared/endpoints/endpoints.ts';
import { messages } from '../../../../shared/endpoints/messages/messages.ts';
import { responses } from '../../../../shared/endpoints/responses/responses.ts';
import { wellFormedJson } from '../../../../shared/json/exact-json.ts';
import { callOf, faultsOf, faultyFields } from '../../../support/endpoints/endpoint-call.ts';

const user = { role: 'user', content: 'Hi' };
const required: Readonly<Record<string, object>> = {
  '/v1/chat/completions': { messages: [user] },
  '/v1/completions': { prompt: 'Hi' },
  '/v1/embeddings': { input: 'Hi' },
  '/v1/responses': { input: 'Hi' },
  '/v1/messages': { messages: [user], max_tokens: 10 },
  '/v1/messages/count_tokens': { messages: [user] },
  '/v1/rerank': { query: 'Hi', documents: ['a'] },
};
const bodyOf = (endpoint: Endpoint, fields: object) => JSON.parse(callOf(endpoint, fields).payload);

test('null is absent in every optional field of every endpoint, and reaches no backend', (t) => {
  for (const endpoint of endpoints) {
    const fields = required[endpoint.path] ?? {};
    const { shape } = endpoint.request.schema as z.ZodObject;
    for (const [name, field] of Object.entries<z.ZodType>(shape)) {
      if (name in fields || name === 'model') {
        t.deepEqual(faultyFields(endpoint, { ...fields, [name]: null }), [name], `${endpoint.path}: ${name}`);
        continue;
      }
      t.true(field.safeParse(undefined).success);
      t.deepEqual(bodyOf(endpoint, { ...fields, [name]: null }), bodyOf(endpoint, fields), `${endpoint.path}: ${name}`);
    }
    const extra = { top_k: null, priority: null, x_vendor: null };
    t.deepEqual(bodyOf(endpoint, { ...fields, ...extra }), bodyOf(endpoint, fields));
  }
});

test('null is absent inside messages, items, parts and tools', (t) => {
  const tool = { type: 'function', function: { name: 'f', parameters: { type: 'object', default: null } } };
  const call = { id: 'c', type: 'function', function: { name: 'f', arguments: '{"a":null}' } };
  const nothing = { name: null, tool_calls: null, tool_call_id: null, refusal: null, audio: null };
  const sent = {
    messages: [
      { role: 'user', content: [{ type: 'text', text: 'Hi', cache_control: null }], ...nothing },
      { role: 'assistant', ...nothing, content: null, tool_calls: [{ ...call, index: null }] },
      { role: 'tool', content: 'x', ...nothing, tool_call_id: 'c' },
    ],
    tools: [{ ...tool, strict: null, function: { ...tool.function, description: null, strict: null } }],
    stream_options: { include_usage: null },
    stream: true,
    response_format: { type: 'text', json_schema: null },
    structured_outputs: { json: { const: null }, regex: null, grammar: null },
  };
  t.deepEqual(bodyOf(chat, sent), {
    messages: [
      { role: 'user', content: [{ type: 'text', text: 'Hi' }] },
      { role: 'assistant', content: null, tool_calls: [call] },
      { role: 'tool', content: 'x', tool_call_id: 'c' },
    ],
    tools: [tool],
    stream_options: { include_usage: true },
    response_format: { type: 'text' },
    structured_outputs: { json: { const: null } },
  });
  const block = { type: 'tool_use', id: 't', name: 'f', input: { a: null } };
  const quote = { type: 'text', text: 'Hi' };
  const place = { type: 'char_location', cited_text: 'Hi', document_index: 0, start_char_index: 0, end_char_index: 2 };
  const anthropic = {
    max_tokens: 5,
    system: [{ type: 'text', text: 'x', cache_control: null, citations: null }],
    messages: [
      { role: 'user', content: [{ type: 'text', text: 'Hi', citations: null }] },
      {
        role: 'assistant',
        content: [
          { ...block, caller: null },
          { ...quote, citations: [{ ...place, file_id: null }] },
        ],
      },
      { role: 'user', content: [{ type: 'tool_result', tool_use_id: 't', content: null, is_error: null }] },
    ],
    tools: [{ type: null, name: 'f', description: null, input_schema: { type: 'object' } }],
    metadata: { user_id: null },
  };
  t.deepEqual(bodyOf(messages, anthropic), {
    system: [{ type: 'text', text: 'x' }],
    messages: [
      { role: 'user', content: [{ type: 'text', text: 'Hi' }] },
      { role: 'assistant', content: [block, { ...quote, citations: [place] }] },
      { role: 'user', content: [{ type: 'tool_result', tool_use_id: 't' }] },
    ],
    tools: [{ name: 'f', input_schema: { type: 'object' } }],
    metadata: {},
  });
  const shell = { type: 'local_shell_call', id: 's', call_id: 'c', status: 'completed' };
  const action = { type: 'exec', command: ['ls'], env: {} };
  const said = { type: 'output_text', text: 'Hi' };
  const cited = { type: 'url_citation', url: 'https://example.com', start_index: 0, end_index: 2 };
  const items = [
    { type: null, role: 'user', content: 'Hi', id: null, status: null },
    { type: 'reasoning', id: 'rs', summary: [], content: null, encrypted_content: null },
    { ...shell, action: { ...action, timeout_ms: null, user: null, working_directory: null } },
    { type: 'message', role: 'assistant', content: [{ ...said, annotations: [{ ...cited, title: null }] }] },
  ];
  t.deepEqual(bodyOf(responses, { input: items, reasoning: { effort: null, summary: null }, prompt: { id: null } }), {
    input: [
      { role: 'user', content: 'Hi', type: 'message' },
      { type: 'reasoning', id: 'rs', summary: [] },
      { ...shell, action },
      { type: 'message', role: 'assistant', content: [{ ...said, annotations: [cited] }] },
    ],
    reasoning: {},
    prompt: {},
    store: false,
  });
});

test('null is absent inside media and parts of results', (t) => {
  const url = 'data:image/png;base64,AAAA';
  const content = [{ type: 'image_url', image_url: { url, detail: null } }];
  t.deepEqual(bodyOf(chat, { messages: [{ role: 'user', content }] }).messages[0].content, [
    { type: 'image_url', image_url: { url } },
  ]);
  const source = { type: 'base64', media_type: 'image/png', data: 'AAAA', url: null };
  const result = (part: object) => ({ type: 'tool_result', tool_use_id: 't', content: [{ type: 'image', ...part }] });
  const cached = { cache_control: { type: 'ephemeral', ttl: null } };
  const sent = { messages: [{ role: 'user', content: [{ ...result({ source, ...cached }) }] }], max_tokens: 5 };
  const { url: _absent, ...present } = source;
  t.deepEqual(bodyOf(messages, sent).messages[0].content, [
    result({ source: present, cache_control: { type: 'ephemeral' } }),
  ]);
});

test('null is absent inside formats and choices, and stays in their schemas and in the result of a tool', (t) => {
  const schema = { type: 'object', default: null, properties: { format: { const: null } } };
  const format = { type: 'json_schema', name: 'f', schema };
  const tools = [{ type: 'custom', name: 'c', format: { type: 'text', grammar: null } }];
  const choice = { type: 'allowed_tools', allowed_tools: { mode: 'auto', tools: [{ type: 'function', name: null }] } };
  const { type, ...named } = format;
  const asked = {
    messages: [user],
    response_format: { type, json_schema: { ...named, strict: null, description: null } },
  };
  t.deepEqual(bodyOf(chat, { ...asked, tool_choice: choice }), {
    ...{ messages: [user], response_format: { type, json_schema: named } },
    tool_choice: { type: 'allowed_tools', allowed_tools: { mode: 'auto', tools: [{ type: 'function' }] } },
  });
  const output = { content: null, format: null };
  const input = [{ type: 'function_call_output', call_id: 'c', output }];
  t.deepEqual(bodyOf(responses, { input, tools, text: { format: { ...format, strict: null, description: null } } }), {
    ...{ input, store: false, text: { format } },
    tools: [{ type: 'custom', name: 'c', format: { type: 'text' } }],
  });
});

test('null stays where it is data, and is refused where a value is required', (t) => {
  const data = { chat_template_kwargs: { mode: null }, guided_json: { enum: [null], default: null } };
  t.deepEqual(bodyOf(chat, { messages: [user], ...data }), { messages: [user], ...data });
  t.deepEqual(faultyFields(chat, { messages: [{ role: 'user', content: null }] }), ['messages[0].content']);
  t.deepEqual(faultyFields(chat, { messages: [null] }), ['messages[0]']);
  t.deepEqual(faultyFields(messages, { messages: [{ ...user, content: null }], max_tokens: 1 }), [
    'messages[0].content',
  ]);
  t.true(faultsOf(chat, { messages: [user], logit_bias: { 5: null } }).length > 0);
});

/** As a client writes it: `JSON.stringify` writes such escapes, too. */
const sentText = (endpoint: Endpoint, text: string) =>
  callOf(endpoint, parseJsonBody(new TextEncoder().encode(text)).value).payload;

test('half of a surrogate pair is replaced in every endpoint, in values and names at any depth', (t) => {
  for (const endpoint of endpoints) {
    const fields = JSON.stringify(required[endpoint.path]).replace(
      '"Hi"',
      String.raw`"a\ud800b\uDC00\ud83d\ude00\\ud800é"`,
    );
    const body = sentText(endpoint, fields);
    t.true(body.includes(String.raw`"a�b�😀\\ud800é"`), body);
    t.true(body.isWellFormed());
    t.notRegex(body, /(?<!\\)\\ud/i);
  }
  const nested = String.raw`{"messages":[{"role":"user","content":[{"type":"text","text":"\udfff"}],"x\ud801":{"\ud800":["\ud800"]}}]}`;
  t.is(
    sentText(chat, nested),
    '{"messages":[{"role":"user","content":[{"type":"text","text":"�"}],"x�":{"�":["�"]}}]}',
  );
});

test('numbers stay as they were written beside half of a surrogate pair', (t) => {
  const text = String.raw`{"model":"m","input":"\ud800","top_p":0.1000000000000000055}`;
  const { text: whole, value } = wellFormedJson({ text, value: JSON.parse(text) });
  t.is(whole, String.raw`{"model":"m","input":"\ufffd","top_p":0.1000000000000000055}`);
  t.deepEqual(value, JSON.parse(whole));
});

test('a body of whole characters is not changed, and any escapes are read as JSON reads them', (t) => {
  const clean = { text: String.raw`{"a":"\ud83d\ude00 \\ud800 \\\\ud800 \u00e9 \\"}`, value: {} };
  t.is(wellFormedJson(clean), clean);
  const pieces = ['\\\\', '\\ud800', '\\udc00', '\\uD83D\\uDE00', '\\"', 'ud800', 'x', '😀', '\\u0041'];
  for (let round = 0; round < 3_000; round++) {
    const inner = Array.from({ length: 8 }, (_, index) => pieces[(round * 7 + index * index * round) % pieces.length]);
    const text = `{"a":"${inner.join('')}"}`;
    const value = JSON.parse(text) as { a: string };
    const whole = wellFormedJson({ text, value });
    t.deepEqual(whole.value, { a: value.a.toWellFormed() });
    t.deepEqual(JSON.parse(whole.text), whole.value);
  }
});

test('more than 10,000 halves of characters are refused, and any number of pairs and escaped backslashes is not', (t) => {
  const sent = (piece: string, count: number) => {
    const text = `{"a":"${piece.repeat(count)}"}`;
    return { text, value: JSON.parse(text) as object };
  };
  const half = String.raw`\ud800`;
  t.deepEqual(wellFormedJson(sent(half, 10_000)).value, { a: '\ufffd'.repeat(10_000) });
  t.throws(() => wellFormedJson(sent(half, 10_001)), { message: /^body: has more than 10000 halves of characters/ });
  for (const piece of [String.raw`\ud83d\ude00`, String.raw`\\ud800`, '\\\\']) {
    const whole = sent(piece, 100_000);
    t.is(wellFormedJson(whole), whole);
  }
});
