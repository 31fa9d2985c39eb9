import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import test from 'ava';
import { Registry } from 'prom-client';
import { chat } from '../../../../shared/endpoints/chat/chat.ts';
import { publishedRequestSchema } from '../../../../shared/endpoints/chat/chat-request.ts';
import { createListedFields } from '../../../../shared/endpoints/fields/listed-fields.ts';
import { readOutputLimit } from '../../../../shared/endpoints/fields/output-limit.ts';
import {
  defaultExtraFields,
  refusedEngineFields,
  refusedParts,
  refusedPublishedFields,
} from '../../../../shared/endpoints/fields/refused-fields.ts';
import { ApiError } from '../../../../shared/errors.ts';
import { countRefusedFields, createLimitMetrics } from '../../../../shared/process/metrics.ts';
import { faultyPathsOf, fieldErrorOf, fieldModel, parseFields, readChat } from '../../../support/read-chat.ts';

const format = chat.request.fields;
const messages = [{ role: 'user', content: 'Hi' }];

test('the published fields are all those of the official SDK for this endpoint', (t) => {
  const file = createRequire(import.meta.url).resolve('openai/resources/chat/completions/completions.js');
  const types = readFileSync(file.replace(/js$/, 'd.ts'), 'utf8');
  const from = types.indexOf('export interface ChatCompletionCreateParamsBase');
  const fields = types.slice(from, types.indexOf('\n}\n', from)).matchAll(/^ {4}(\w+)\??:/gm);
  const names = Array.from(fields, ([, name = '']) => name);
  t.true(names.length > 30);
  t.deepEqual([...format.published, 'web_search_options'].toSorted(), names.toSorted());
});

test('published fields and harmless engine fields reach a backend, but service_tier is removed', (t) => {
  const fields = {
    ...{
      reasoning_effort: 'low',
      verbosity: 'low',
      metadata: { a: 'b' },
      store: false,
      modalities: ['text'],
    },
    ...{
      prediction: { type: 'content', content: 'x' },
      prompt_cache_key: 'k',
      functions: [],
    },
    ...{
      top_k: 5,
      min_p: 0.1,
      guided_json: { type: 'object' },
      chat_template_kwargs: { enable_thinking: false },
      thinking: {},
    },
  };
  const call = parseFields({ ...fields, service_tier: 'flex' });
  t.deepEqual(JSON.parse(call.payload), { messages, ...fields });
  t.true(call.assembled, 'all of them mean the same in a stream');
});

const harmful = [
  ...[
    'priority',
    'cache_salt',
    'chat_template',
    'logits_processors',
    'guided_regex',
    'guided_grammar',
    'kv_transfer_params',
  ],
  ...[
    'mm_processor_kwargs',
    'vllm_xargs',
    'lora_path',
    'custom_params',
    'custom_logit_processor',
    'bootstrap_host',
    'id_slot',
  ],
  ...[
    'best_of',
    'use_beam_search',
    'num_beams',
    'prompt_logprobs',
    'echo',
    'n_predict',
    'extra_body',
    'options',
    'request_id',
  ],
  ...[
    'x_vendor',
    'constructor',
    'toString',
    '__proto__',
    'Max_Tokens',
    'Priority',
    'priority ',
    'Messages',
    'ﬁeld',
    '',
  ],
];

const near: Readonly<Record<string, string>> = Object.assign(Object.create(null), { Messages: 'messages' });

for (const field of harmful) {
  test(`${JSON.stringify(field)} is rejected by name with any value but null, and the error names the setting that allows it`, (t) => {
    for (const value of [1, false, 'x', {}, ['a']]) {
      const text = `{"model":"m","messages":[{"role":"user","content":"Hi"}],${JSON.stringify(field)}:${JSON.stringify(value)}}`;
      const models = { m: fieldModel };
      const error = t.throws(
        () =>
          readChat({ value: JSON.parse(text), text }, models, {
            rule: createListedFields({ models, mediaHosts: [] }),
          }),
        { instanceOf: ApiError },
      );
      const meant = near[field] === undefined ? '' : `, did you mean \`${near[field]}\`?`;
      const how = `is not accepted${meant} (the operator can allow it: "${field}" in extra_fields of the model "m")`;
      t.deepEqual(
        error?.issues.map(({ path, message }) => [path, message]),
        [[field === '' ? '""' : field, how]],
      );
    }
  });
}

test('no default field costs more than is reserved', (t) => {
  for (const field of defaultExtraFields) {
    const { tokens, choices } = readOutputLimit({ [field]: 1_000_000 }, { outputTokensMax: 1 });
    t.deepEqual({ tokens, choices: choices.value }, { tokens: undefined, choices: 1 }, field);
    t.false(format.published.has(field), field);
  }
  for (const field of harmful) t.false(defaultExtraFields.includes(field), field);
});

test("a model's list replaces the default one, and can include it by name", (t) => {
  t.deepEqual(faultyPathsOf({ top_k: 1 }, { extraFields: [] }), ['top_k']);
  t.deepEqual(faultyPathsOf({ top_k: 1, priority: 1, x_vendor: 2 }, { extraFields: ['priority'] }), [
    'top_k',
    'x_vendor',
  ]);
  const both = parseFields({ top_k: 1, guided_regex: 'a+' }, { extraFields: ['default', 'guided_regex'] });
  t.deepEqual(JSON.parse(both.payload), { messages, top_k: 1, guided_regex: 'a+' });
});

test('a listed output limit of another name still counts as the output limit', (t) => {
  const lists = { extraFields: ['n_predict', 'best_of'] };
  t.like(parseFields({ max_tokens: 1, n_predict: 700, best_of: 3 }, lists), {
    outputTokensMax: 700,
    cost: { choices: 3 },
    choices: 1,
  });
  t.deepEqual(faultyPathsOf({ n_predict: 5_000 }, lists), ['n_predict']);
});

test('a field that is rejected by name cannot be passed inside another field', (t) => {
  const cases: [fields: object, path: string, listed: string][] = [
    [{ response_format: { type: 'regex', value: 'a+' } }, 'response_format.type', 'response_format.regex'],
    [
      { response_format: { type: 'structural_tag', format: {} } },
      'response_format.type',
      'response_format.structural_tag',
    ],
    [{ response_format: { type: 'grammar' } }, 'response_format.type', 'response_format.grammar'],
    [{ structured_outputs: { regex: 'a+' } }, 'structured_outputs.regex', 'structured_outputs.regex'],
    [{ structured_outputs: { grammar: 'x' } }, 'structured_outputs.grammar', 'structured_outputs.grammar'],
    [
      { chat_template_kwargs: { chat_template: '{{ 1 }}' } },
      'chat_template_kwargs.chat_template',
      'chat_template_kwargs.chat_template',
    ],
    [{ chat_template_kwargs: { tokenize: true } }, 'chat_template_kwargs.tokenize', 'chat_template_kwargs.tokenize'],
  ];
  for (const [fields, path, listed] of cases) {
    const { issues: faults } = fieldErrorOf(fields);
    t.deepEqual(
      faults.map((fault) => fault.path),
      [path],
    );
    t.true(faults[0]?.message.includes(`"${listed}" in extra_fields`), faults[0]?.message);
    t.notThrows(() => parseFields(fields, { extraFields: ['default', listed] }));
  }
  for (const fields of [
    { response_format: { type: 'json_schema', json_schema: {} } },
    { response_format: { type: 'json', value: {} } },
    { structured_outputs: { json: {}, disable_any_whitespace: true } },
    { structured_outputs: { choice: ['a', 'b'] } },
    { chat_template_kwargs: { enable_thinking: true, custom: [1] } },
  ]) {
    t.notThrows(() => parseFields(fields), JSON.stringify(fields));
  }
});

test('a tool of a type other than function and custom must be listed, also in a message', (t) => {
  const tools = [
    { type: 'function', function: { name: 'f' } },
    { type: 'custom' },
    { type: 'mcp', server_url: 'http://redis:6379' },
  ];
  t.deepEqual(faultyPathsOf({ tools }), ['tools[2].type']);
  t.is(
    fieldErrorOf({ tools }).message,
    'tools[2].type: expected function or custom (the operator can allow others in extra_tools of the model "m")',
  );
  t.deepEqual(JSON.parse(parseFields({ tools }, { extraTools: ['mcp'] }).payload).tools, tools);
  t.deepEqual(faultyPathsOf({ tools: [{ type: 'browser' }] }, { extraTools: ['mcp'] }), ['tools[0].type']);
  t.deepEqual(faultyPathsOf({ messages: [{ role: 'developer', content: 'x', tools }] }), ['messages[0].tools[2].type']);
});

const bad = 'http://169.254.169.254/latest/meta-data';
/** Every place where some model server looks for an address. */
const parts: [part: object, path: string][] = [
  [{ type: 'image_url', image_url: { url: bad } }, 'image_url.url'],
  [{ type: 'image_url', image_url: bad }, 'image_url'],
  [{ type: 'image_url', image_url: '/etc/passwd' }, 'image_url'],
  [{ type: 'image_url', image_url: { url: 'iVBORw0KGgo=' } }, 'image_url.url'],
  [{ type: 'text', text: 'x', image_url: { url: bad } }, 'image_url.url'],
  [{ type: 'image', image: bad }, 'image'],
  [{ type: 'input_image', image_url: bad }, 'image_url'],
  [{ type: 'video_url', video_url: { url: bad } }, 'video_url.url'],
  [{ type: 'video', video: ['data:,x', bad] }, 'video[1]'],
  [{ type: 'audio_url', audio_url: { url: bad } }, 'audio_url.url'],
  [{ type: 'input_audio', input_audio: { data: bad, format: 'wav' } }, 'input_audio.data'],
  [{ type: 'input_audio', input_audio: { url: bad } }, 'input_audio.url'],
  [{ type: 'file', file: { file_data: bad } }, 'file.file_data'],
  [{ type: 'file', file: { file_id: bad } }, 'file.file_id'],
  [{ type: 'file', file: { file_url: bad } }, 'file.file_url'],
  [{ type: 'file_url', file_url: { url: bad } }, 'file_url.url'],
  [{ type: 'image_url', Image_URL: { URL: bad } }, 'Image_URL.URL'],
  [{ type: 'image_url', url: bad }, 'url'],
  [{ type: 'image', source: { type: 'url', url: bad } }, 'source.url'],
  [{ type: 'image', source: bad }, 'source'],
  [{ type: 'image', path: '/etc/passwd' }, 'path'],
  [{ type: 'image_url', image_url: { path: 'file:///etc/passwd' } }, 'image_url.path'],
  [{ type: 'text', text: 'x', Type: 'image_url', URL: bad }, 'URL'],
  [{ type: 'tool_result', content: { type: 'image_url', image_url: bad } }, 'content.image_url'],
  [{ type: 'tool_result', content: [{ type: 'image_url', image_url: { url: bad } }] }, 'content[0].image_url.url'],
];

for (const [part, path] of parts) {
  test(`an address in ${JSON.stringify(part).slice(0, 90)} is checked`, (t) => {
    const content = [{ type: 'text', text: `See ${bad}` }, part];
    t.deepEqual(faultyPathsOf({ messages: [{ role: 'user', content }] }, { mediaHosts: ['*'] }), [
      `messages[0].content[1].${path}`,
    ]);
    t.deepEqual(faultyPathsOf({ messages: [{ role: 'tool', content }] }), [`messages[0].content[1].${path}`]);
    t.deepEqual(faultyPathsOf({ prediction: { type: 'content', content } }), [`prediction.content[1].${path}`]);
  });
}

test('addresses of listed hosts, data, ids and texts are accepted unchanged', (t) => {
  const content = [
    { type: 'image_url', image_url: { url: 'https://media.example.com/a.png', detail: 'low' } },
    { type: 'image_url', image_url: { url: 'data:image/png;base64,iVBORw0KGgo=' } },
    { type: 'input_audio', input_audio: { data: '//uQAAEC/w==', format: 'mp3' } },
    { type: 'file', file: { file_data: 'data:application/pdf;base64,AAEC', filename: 'http://a/b.pdf' } },
    { type: 'file', file: { file_id: 'file-abc' } },
    { type: 'text', text: bad },
  ];
  const asked = [
    { role: 'user', content },
    { role: 'assistant', content: bad, reasoning_content: bad, audio: { id: 'audio_1' } },
  ];
  t.deepEqual(
    JSON.parse(parseFields({ messages: asked }, { mediaHosts: ['media.example.com'] }).payload).messages,
    asked,
  );
  t.deepEqual(faultyPathsOf({ messages: asked }), ['messages[0].content[0].image_url.url']);
});

test('a text part and a message may have fields of any name', (t) => {
  const content = [{ type: 'text', text: 'x', url: bad, source: bad, uuid: 'u' }];
  const asked = [{ role: 'user', content, url: bad, path: '/etc/passwd', uuid: 'u' }];
  t.deepEqual(JSON.parse(parseFields({ messages: asked }).payload).messages, asked);
});

/** A part with an address, nested in this many other parts. */
function partWithin(parts: number): object {
  return parts === 0
    ? { type: 'image_url', image_url: { url: bad } }
    : { type: 'tool_result', content: [partWithin(parts - 1)] };
}

test('an address is found in a part within five others, and deeper nesting is rejected', (t) => {
  const { issues: faults } = fieldErrorOf({ messages: [{ role: 'user', content: [partWithin(5)] }] });
  t.regex(faults[0]?.path ?? '', /image_url\.url$/);
  for (const part of [
    partWithin(6),
    partWithin(30),
    { type: 'image', image: JSON.parse('['.repeat(20) + ']'.repeat(20)) },
  ]) {
    const error = fieldErrorOf({ messages: [{ role: 'user', content: [part] }] }, { mediaHosts: ['*'] });
    t.deepEqual(
      error.issues.map(({ message, refused }) => [message, refused !== undefined]),
      [['is nested too deeply', true]],
    );
  }
});

test('a name under which media is cached is rejected unless it is listed', async (t) => {
  const url = 'data:image/png;base64,iVBORw0KGgo=';
  const content = [
    { type: 'image_url', image_url: { url }, uuid: 'other' },
    { type: 'image_url', image_url: { url, content_hash: 'x', UUID: 'y' }, uuid: null },
    { type: 'image_url', image_url: null, uuid: 'other' },
  ];
  const asked = { messages: [{ role: 'user', content }] };
  t.deepEqual(faultyPathsOf(asked), [
    'messages[0].content[0].uuid',
    'messages[0].content[1].image_url.content_hash',
    'messages[0].content[1].image_url.UUID',
    'messages[0].content[2].uuid',
  ]);
  t.true(fieldErrorOf(asked).message.includes('"messages.uuid" in extra_fields of the model "m"'));
  t.notThrows(() => parseFields(asked, { extraFields: ['default', 'messages.uuid', 'messages.content_hash'] }));
  const metrics = createLimitMetrics(new Registry());
  countRefusedFields(metrics, '/v1/chat/completions', fieldErrorOf(asked));
  const { values } = await metrics.refusedFields.get();
  t.deepEqual(values.map(({ labels }) => labels.field).toSorted(), ['content_hash', 'uuid']);
});

/** A list of a million of these items, and how many of them were read. */
function countedList(item: unknown): { list: unknown[]; reads: () => number } {
  let reads = 0;
  const list = new Proxy(Array(1_000_000).fill(item), {
    get(target, name, receiver) {
      if (typeof name === 'string' && name !== 'length' && name in target) reads++;
      return Reflect.get(target, name, receiver);
    },
  });
  return { list, reads: () => reads };
}

test('at most 2,001 items of a list in a media field are visited', (t) => {
  const listed = createListedFields({ models: { m: fieldModel }, mediaHosts: ['*'] });
  const places: ((list: unknown[]) => object)[] = [
    (image) => ({ type: 'image', image }),
    (data) => ({ type: 'image', image: { data } }),
    (id) => ({ type: 'file', file: { id } }),
    (source) => ({ type: 'image', source: [source] }),
  ];
  for (const [item, place] of [1, null, true, 'a', ''].flatMap((item) =>
    places.map((place) => [item, place] as const),
  )) {
    const { list, reads } = countedList(item);
    const faults = listed.issuesIn({ model: 'm', messages: [{ role: 'user', content: [place(list)] }] }, 'm', format);
    t.true(faults.length > 0);
    t.true(reads() <= 2_001, `${reads()} of ${JSON.stringify(item)}`);
  }
});

test('a list of more than 64 stops or modalities is rejected, and its items are not read', (t) => {
  const stop = Array(65).fill('a');
  t.notThrows(() => parseFields({ stop: stop.slice(1) }));
  t.is(fieldErrorOf({ stop }).message, 'stop: expected a string or an array of at most 64 strings');
  t.deepEqual(faultyPathsOf({ modalities: stop }), ['modalities']);
  for (const field of ['stop', 'modalities']) {
    const { list, reads } = countedList('');
    t.false(publishedRequestSchema.safeParse({ model: 'm', messages, [field]: list }).success);
    t.is(reads(), 0, field);
  }
});

test('lists of numbers and texts outside the messages may be as long as a body', (t) => {
  for (const field of ['documents', 'stop_token_ids', 'allowed_token_ids', 'guided_choice']) {
    t.notThrows(() => parseFields({ [field]: Array(100_000).fill(1) }), field);
  }
});

test("published fields that spend the operator's money are rejected unless they are listed, each with its reason in one table", (t) => {
  t.deepEqual(faultyPathsOf({ web_search_options: {} }), ['web_search_options']);
  t.true(
    fieldErrorOf({ web_search_options: {} }).message.includes('"web_search_options" in extra_fields of the model "m"'),
  );
  t.notThrows(() => parseFields({ web_search_options: {} }, { extraFields: ['web_search_options'] }));
  const fields = [...refusedPublishedFields, ...refusedParts, ...refusedEngineFields];
  const names = fields.flatMap((refused) => refused.fields);
  t.is(new Set(names).size, names.length);
  for (const { published, because } of fields) t.true(published !== '' && because !== '');
  t.deepEqual(
    names.filter((name) => defaultExtraFields.includes(name)),
    [],
  );
});

test('every type in the table of refused parts is rejected, as a part and as an item of a list of messages', (t) => {
  const types = refusedParts.flatMap(({ fields }) => fields);
  t.true(types.length > 5);
  for (const type of types) {
    t.deepEqual(
      faultyPathsOf({ messages: [{ role: 'user', content: [{ type }] }] }),
      ['messages[0].content[0].type'],
      type,
    );
    t.deepEqual(faultyPathsOf({ messages: [{ role: 'user', content: 'Hi', type }] }), ['messages[0].type'], type);
  }
});

test('results of tools in the official SDK are known parts, and look-alikes are not', (t) => {
  const file = createRequire(import.meta.url).resolve('@anthropic-ai/sdk/resources/beta/messages/messages.js');
  const types = readFileSync(file.replace(/js$/, 'd.ts'), 'utf8');
  const known = new Set(types.match(/(?<=type: ')\w+_(?:result|output|result_error)(?=')/g));
  t.true(known.size > 20);
  const messagesOf = (type: string) => ({ messages: [{ role: 'user', content: [{ type }] }] });
  for (const type of known) t.notThrows(() => parseFields(messagesOf(type)), type);
  for (const type of ['x_result', 'x_output', 'processor_result', 'image_embeds_output'])
    t.deepEqual(faultyPathsOf(messagesOf(type)), ['messages[0].content[0].type'], type);
});

test('a content part of a type that is not published is rejected unless it is listed', async (t) => {
  const parts = (...content: object[]) => ({ messages: [{ role: 'user', content }] });
  const tensor = { type: 'image_embeds', image_embeds: 'gAJ9' };
  const asked = parts(
    { type: 'text', text: 'Hi' },
    tensor,
    { Type: 'x_embeds', type: 'text', text: '' },
    { type: 'any' },
  );
  t.deepEqual(faultyPathsOf(asked), [
    'messages[0].content[1].type',
    'messages[0].content[2].Type',
    'messages[0].content[3].type',
  ]);
  t.true(fieldErrorOf(asked).message.includes('"content.image_embeds" in extra_fields of the model "m"'));
  t.notThrows(() => parseFields(parts(tensor), { extraFields: ['content.image_embeds'] }));
  const nested = parts({ type: 'tool_result', tool_use_id: 'a', content: [tensor] });
  t.deepEqual(faultyPathsOf(nested), ['messages[0].content[0].content[0].type']);
  const metrics = createLimitMetrics(new Registry());
  countRefusedFields(metrics, '/v1/chat/completions', fieldErrorOf(asked));
  const { values } = await metrics.refusedFields.get();
  t.deepEqual(values.map(({ labels }) => labels.field).toSorted(), ['content', 'image_embeds']);
});

test('a type in another letter case is rejected, because some servers take the last of two', (t) => {
  const tool = { type: 'function', Type: 'mcp', server_url: 'http://redis:6379' };
  const wrong = fieldErrorOf({ tools: [tool] });
  t.is(wrong.message, 'tools[0].Type: must be spelled type');
  t.deepEqual(faultyPathsOf({ tools: [{ ...tool, TYPE: 'function' }] }, { extraTools: ['mcp'] }), [
    'tools[0].Type',
    'tools[0].TYPE',
  ]);
  const mcp = [{ type: 'mcp' }];
  t.deepEqual(faultyPathsOf({ messages: [{ role: 'developer', content: 'x', Tools: mcp }] }), [
    'messages[0].Tools[0].type',
  ]);
  t.deepEqual(faultyPathsOf({ response_format: { type: 'text', Type: 'regex', value: 'a+' } }), [
    'response_format.Type',
  ]);
  const template = { Chat_Template: '{{ 1 }}' };
  t.deepEqual(faultyPathsOf({ chat_template_kwargs: template }), ['chat_template_kwargs.Chat_Template']);
});

test('rejected fields are named together with invalid ones, and the search stops after ten', (t) => {
  t.deepEqual(faultyPathsOf({ temperature: 5, store: 'yes', priority: 1 }), ['temperature', 'store', 'priority']);
  const many = fieldErrorOf(Object.fromEntries(Array.from({ length: 200_000 }, (_, index) => [`x${index}`, 1])));
  t.is(many.issues.length, 10);
  t.true(many.message.endsWith('; and more'));
  const [fault] = fieldErrorOf({ ['x'.repeat(1_000_000)]: 1 }).issues;
  t.true((fault?.path.length ?? 0) < 100 && (fault?.message.length ?? 0) < 300);
});

test('published fields are type-checked, also those that were added with the lists', (t) => {
  const wrong: Record<string, unknown> = {
    ...{ audio: 1, function_call: 1, functions: 'x', metadata: 'x', modalities: 'text', prediction: 'x', store: 'x' },
    ...{ prompt_cache_key: 1, prompt_cache_retention: 1, reasoning_effort: {}, safety_identifier: 1, service_tier: 1 },
    ...{ verbosity: 1, prompt_cache_options: 'x' },
  };
  for (const [field, value] of Object.entries(wrong)) t.deepEqual(faultyPathsOf({ [field]: value }), [field]);
});

test('rejections are counted by field, once per request, unknown names as other, and other errors are not counted', async (t) => {
  const metrics = createLimitMetrics(new Registry());
  const count = (fields: object) => countRefusedFields(metrics, '/v1/chat/completions', fieldErrorOf(fields));
  count({ priority: 1, x_a: 1, x_b: 2 });
  count({ priority: 1, tools: [{ type: 'mcp' }, { type: 'mcp' }] });
  count({ messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url: bad } }] }] });
  count({ chat_template_kwargs: { tokenize: 1 }, response_format: { type: 'x_c' } });
  count({ temperature: 9 });
  countRefusedFields(metrics, '/v1/chat/completions', new Error('something else'));
  const { values } = await metrics.refusedFields.get();
  t.deepEqual(Object.fromEntries(values.map(({ labels, value }) => [labels.field, value])), {
    ...{ priority: 2, other: 1, tools: 1, image_url: 1, chat_template_kwargs: 1, response_format: 1 },
  });
});

test('a request has at most 2,000 addresses', (t) => {
  const image = { type: 'image_url', image_url: { url: 'https://media.example.com/' } };
  const asking = (images: number) => ({ messages: [{ role: 'user', content: Array(images).fill(image) }] });
  const lists = { mediaHosts: ['media.example.com'] };
  t.notThrows(() => parseFields(asking(2_000), lists));
  t.deepEqual(faultyPathsOf(asking(2_001), lists), ['messages[0].content[2000].image_url.url']);
});

// If a part cost as much as all before it, this would take minutes.
test('100,000 parts and 4 MB of data are checked', (t) => {
  const content = Array.from({ length: 100_000 }, () => ({ type: 'text', text: 'x' }));
  const data = { type: 'image_url', image_url: { url: `data:image/png;base64,${'A'.repeat(4_000_000)}` } };
  const models = { m: fieldModel };
  const listed = createListedFields({ models, mediaHosts: ['*'] });
  t.deepEqual(
    listed.issuesIn({ model: 'm', messages: [{ role: 'user', content: [...content, data] }] }, 'm', format),
    [],
  );
});

test('an API key that is sent as the name of a field is not repeated', (t) => {
  const key = `svc_${'0a1B'.repeat(9)}Z9`;
  const { message } = fieldErrorOf({ [key]: 1, messages: [{ role: 'user', content: [{ type: key }] }] });
  t.regex(message, /^svc_0a1B0a\*{4}: is not accepted.*"content\.svc_0a1B0a\*{4}" in extra_fields/s);
  t.false(message.includes(key.slice(0, 20)), message);
});

test('a listed name that is longer than errors repeat is accepted', (t) => {
  const [type, name] = ['t'.repeat(100), 'n'.repeat(100)];
  const request = {
    structured_outputs: { [name]: 1 },
    response_format: { type },
    messages: [{ role: 'user', content: [{ type }] }],
  };
  const extraFields = [
    'structured_outputs',
    `structured_outputs.${name}`,
    `response_format.${type}`,
    `content.${type}`,
  ];
  t.notThrows(() => parseFields(request, { extraFields }));
  t.is(faultyPathsOf(request).length, 3);
});
