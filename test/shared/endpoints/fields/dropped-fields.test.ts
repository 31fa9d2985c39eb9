import test from 'ava';
import { chat } from '../../../../shared/endpoints/chat/chat.ts';
import type { Endpoint } from '../../../../shared/endpoints/definition/endpoint.ts';
import { readCall } from '../../../../shared/endpoints/definition/read-call.ts';
import { endpointNames } from '../../../../shared/endpoints/endpoints.ts';
import { createListedFields, type FieldSettings } from '../../../../shared/endpoints/fields/listed-fields.ts';
import { refusedEngineFields, refusedPublishedFields } from '../../../../shared/endpoints/fields/refused-fields.ts';
import { countTokens, messages } from '../../../../shared/endpoints/messages/messages.ts';
import { responses } from '../../../../shared/endpoints/responses/responses.ts';
import { ApiError } from '../../../../shared/errors.ts';

type Settings = FieldSettings['models'][string];

function read(endpoint: Endpoint, fields: object, settings: Settings = {}) {
  const model = { tier: 'guest', pool: 'default', endpoints: endpointNames, outputTokensMax: 1_000, ...settings };
  const value = { model: 'm', ...fields };
  const rule = createListedFields({ models: { m: model }, mediaHosts: [] });
  const call = readCall(endpoint, { value, text: JSON.stringify(value) }, { models: { m: model }, aliases: {}, rule });
  return { body: JSON.parse(call.payload), dropped: call.dropped };
}

function faultsOf(endpoint: Endpoint, fields: object, settings?: Settings): string[] {
  try {
    read(endpoint, fields, settings);
  } catch (error) {
    if (error instanceof ApiError) return error.issues.map(({ path, message }) => `${path}: ${message}`);
    throw error;
  }
  return [];
}

const run = { type: 'function', name: 'run', parameters: { type: 'object' } };
const question = { input: 'Hi' };
const ask = { messages: [{ role: 'user', content: 'Hi' }], max_tokens: 10 };
const bash = { name: 'Bash', input_schema: { type: 'object' } };

const hostedByOpenAi = [
  ...['web_search', 'web_search_2025_08_26', 'web_search_preview', 'web_search_preview_2025_03_11', 'file_search'],
  ...['code_interpreter', 'image_generation', 'computer', 'computer_use', 'computer_use_preview', 'namespace'],
  ...['tool_search', 'programmatic_tool_calling'],
];
const hostedByAnthropic = [
  ...['web_search_20250305', 'web_search_20260318', 'web_fetch_20250910', 'code_execution_20260521'],
  ...['tool_search_tool_regex_20251119', 'tool_search_tool_bm25', 'advisor_20260301'],
];

test('a hosted tool is dropped from responses and named, unless the model lists its type', (t) => {
  for (const type of hostedByOpenAi) {
    const { body, dropped } = read(responses, {
      ...question,
      tools: [run, { type, tools: [run] }],
      tool_choice: 'auto',
    });
    t.deepEqual([body.tools, body.tool_choice, dropped], [[run], 'auto', [`tools.${type}`]]);
    const listed = read(responses, { ...question, tools: [{ type }] }, { extraTools: [type] });
    t.deepEqual([listed.body.tools, listed.dropped], [[{ type }], []]);
  }
});

test("Anthropic's server tools are dropped from messages and from counts, and its client tools are refused", (t) => {
  for (const type of hostedByAnthropic) {
    for (const endpoint of [messages, countTokens]) {
      const fields = endpoint === countTokens ? { messages: ask.messages } : ask;
      const { body, dropped } = read(endpoint, { ...fields, tools: [bash, { type, name: 'hosted' }] });
      t.deepEqual([body.tools, dropped], [[bash], [`tools.${type}`]]);
    }
    const listed = read(messages, { ...ask, tools: [{ type, name: 'x' }] }, { extraTools: [type] });
    t.deepEqual(listed.dropped, []);
  }
  for (const type of [
    ...['bash_20250124', 'text_editor_20250728', 'computer_20251124', 'memory_20250818', 'browser_toolset_20260801'],
    ...['mcp_toolset', 'namespace', 'new_tool_20270101'],
  ]) {
    t.regex(
      faultsOf(messages, { ...ask, tools: [{ type, name: 'x' }] })[0] ?? '',
      /^tools\[0\]\.type: expected function/,
    );
  }
});

test('mcp, unknown types, and every other type in chat completions are refused, with the setting', (t) => {
  for (const type of ['mcp', 'local_shell', 'shell', 'apply_patch', 'a_new_type', 'custom_shell', 'webs_search', '']) {
    t.regex(
      faultsOf(responses, { ...question, tools: [{ type }] })[0] ?? '',
      /^tools\[0\]\.type: expected .*extra_tools/,
    );
  }
  for (const type of ['mcp', ...hostedByOpenAi]) {
    const tool = { type, function: { name: 'f' } };
    t.regex(
      faultsOf(chat, { messages: ask.messages, tools: [tool] })[0] ?? '',
      /^tools\[0\]\.type: expected .*extra_tools/,
    );
  }
});

test('a choice that names a dropped tool is refused, in each of its forms', (t) => {
  const tools = [
    run,
    { type: 'web_search' },
    { type: 'namespace', name: 'agents', tools: [{ ...run, name: 'spawn' }] },
  ];
  const allowed = (...names: object[]) => ({ type: 'allowed_tools', mode: 'auto', tools: names });
  for (const tool_choice of [
    ...[{ type: 'web_search' }, { type: 'web_search_preview' }, { type: 'function', name: 'spawn' }],
    ...[{ type: 'namespace', name: 'agents' }, allowed({ type: 'function', name: 'run' }, { type: 'web_search' })],
    ...[
      allowed({ type: 'function', name: 'spawn' }),
      { type: 'allowed_tools', allowed_tools: allowed({ type: 'tool_search' }) },
    ],
  ]) {
    const [fault = 'none'] = faultsOf(responses, { ...question, tools, tool_choice });
    t.is(fault, 'tool_choice: names a tool that this model does not offer', JSON.stringify(tool_choice));
  }
  for (const tool_choice of [
    ...['auto', 'none', 'required', { type: 'function', name: 'run' }, allowed({ type: 'function', name: 'run' })],
  ]) {
    t.deepEqual(read(responses, { ...question, tools, tool_choice }).body.tool_choice, tool_choice);
  }
  const served = [bash, { type: 'web_search_20250305', name: 'web_search' }];
  const named = (name: string) => ({ ...ask, tools: served, tool_choice: { type: 'tool', name } });
  t.deepEqual(faultsOf(messages, named('web_search')), ['tool_choice: names a tool that this model does not offer']);
  t.is(read(messages, named('Bash')).body.tool_choice.name, 'Bash');
  t.is(read(messages, { ...ask, tools: served, tool_choice: { type: 'any' } }).body.tool_choice.type, 'any');
});

test('without any tool left there are no tools, no choice and no parallel calls, and a demanded call is refused', (t) => {
  const tools = [{ type: 'web_search' }];
  for (const tool_choice of ['auto', 'none', null, undefined]) {
    const { body, dropped } = read(responses, { ...question, tools, tool_choice, parallel_tool_calls: true });
    t.deepEqual(body, { input: 'Hi', store: false });
    t.deepEqual(dropped, ['tools.web_search']);
  }
  t.regex(
    faultsOf(responses, { ...question, tools, tool_choice: 'required' })[0] ?? '',
    /^tool_choice: demands a call/,
  );
  const served = [{ type: 'web_search_20250305', name: 'web_search' }];
  const { body } = read(messages, {
    ...ask,
    tools: served,
    tool_choice: { type: 'auto', disable_parallel_tool_use: true },
  });
  t.deepEqual(body, { messages: ask.messages });
  const any = faultsOf(messages, { ...ask, tools: served, tool_choice: { type: 'any' } });
  t.regex(any[0] ?? '', /^tool_choice: demands a call/);
});

test('a group of tools that the model allows may have the tools and grammars that it would allow without a group', (t) => {
  const grammar = {
    type: 'custom',
    name: 'exec',
    format: { type: 'grammar', syntax: 'lark', definition: 'start: "a"' },
  };
  const pattern = { ...run, strict: true, parameters: { type: 'object', pattern: '(a+)+' } };
  const asked = { type: 'function', name: 'ask', parameters: { type: 'object', pattern: 'a' } };
  const group = (...tools: object[]) => ({ type: 'namespace', name: 'functions', tools });
  const mayGroup = { extraTools: ['namespace'] };
  const cases: [tools: object[], path: string, choice?: object][] = [
    [[group(run, grammar)], 'tools[0].tools[1].format: '],
    [[group(pattern)], 'tools[0].tools[0].pattern: '],
    [[group(asked)], 'tools[0].tools[0].pattern: ', { tool_choice: { type: 'function', name: 'ask' } }],
    [[group({ type: 'mcp', server_url: 'http://10.0.0.1' })], 'tools[0].tools[0].type: '],
    [[group({ ...run, Type: 'mcp' })], 'tools[0].tools[0].Type: '],
    [[{ type: 'namespace', Tools: [{ type: 'mcp' }] }], 'tools[0].Tools[0].type: '],
    [[group(group(grammar))], 'tools[0].tools[0].tools[0]: '],
  ];
  for (const [tools, path, choice] of cases) {
    const [fault] = faultsOf(responses, { ...question, tools, ...choice }, mayGroup);
    t.true(fault?.startsWith(path), fault);
    if (choice !== undefined) continue;
    const held = faultsOf(responses, { input: [{ type: 'additional_tools', tools }] }, mayGroup);
    t.true(
      held.some((fault) => fault.startsWith(`input[0].${path}`)),
      path,
    );
  }
  const addition = { type: 'tool_addition', tool: { type: 'tool_reference', definition: group(grammar) } };
  const added = faultsOf(messages, { ...ask, messages: [{ role: 'user', content: [addition] }] }, mayGroup);
  t.true(
    added.some((fault) => fault.includes('definition.tools[0].format: ')),
    added.join('\n'),
  );
  const both = { ...mayGroup, extraFields: ['guided_grammar'] };
  const input = [{ type: 'additional_tools', role: 'developer', tools: [group(run, grammar)] }];
  t.deepEqual(read(responses, { input, tools: [group(grammar)] }, both).body, {
    ...{ input, tools: [group(grammar)] },
    store: false,
  });
});

test('tools in the items of a response are dropped as well, and an item that only adds such tools goes with them', (t) => {
  const group = {
    type: 'namespace',
    name: 'functions',
    tools: [{ type: 'custom', name: 'exec', format: { type: 'grammar' } }],
  };
  const hi = { type: 'message', role: 'user', content: 'Hi' };
  const added = { type: 'additional_tools', role: 'developer', tools: [group] };
  const { body, dropped } = read(responses, { input: [added, hi], tool_choice: 'auto', parallel_tool_calls: false });
  t.deepEqual(body, { input: [hi], store: false });
  t.deepEqual(dropped, ['tools.namespace']);
  const some = read(responses, { input: [{ ...added, tools: [group, run] }, hi], tool_choice: 'required' });
  t.deepEqual(some.body.input, [{ ...added, tools: [run] }, hi]);
  const result = { type: 'tool_search_output', call_id: 'c', tools: [group] };
  t.deepEqual(read(responses, { input: [result, hi] }).body.input, [{ ...result, tools: [] }, hi]);
  const call = { type: 'web_search_call', id: 'ws_1', status: 'completed', action: { type: 'search', query: 'x' } };
  t.deepEqual(
    read(responses, { input: [call, hi], tools: [{ type: 'web_search' }] }).body.input,
    [call, hi],
    'history stays',
  );
});

test('an item that only changes the effort of reasoning is dropped and named, and one that sets a format is refused', (t) => {
  const update = { type: 'configuration_update', reasoning: { effort: 'low' } };
  const hi = { type: 'message', role: 'user', content: 'Hi' };
  const { body, dropped } = read(responses, { input: [hi, update], tools: [run], tool_choice: 'required' });
  t.deepEqual([body.input, body.tool_choice, dropped], [[hi], 'required', ['input.configuration_update']]);
  const format = { type: 'json_schema', name: 'x', schema: { type: 'string', pattern: '(a+)+$' } };
  const fault = faultsOf(responses, { input: [hi, { ...update, text: { format } }] });
  t.deepEqual(fault, ['input[1].text: is only read outside of items']);
});

test('what the answer is asked to include of a dropped tool is dropped with it', (t) => {
  const include = ['reasoning.encrypted_content', 'web_search_call.action.sources', 'file_search_call.results'];
  const { body, dropped } = read(responses, { ...question, include, tools: [run, { type: 'web_search_preview' }] });
  t.deepEqual(body.include, ['reasoning.encrypted_content', 'file_search_call.results']);
  t.deepEqual(dropped, ['tools.web_search_preview', 'include.web_search_call.action.sources']);
  t.deepEqual(read(responses, { ...question, include, tools: [run] }).body.include, include);
});

test('numbers reach the backend as they were written also if something was dropped', (t) => {
  const text =
    '{"model":"m","input":"Hi","user":null,"seed_":12345678901234567890,"tools":[{"type":"web_search"}],"top_p":0.1000000000000000055}';
  const model = {
    tier: 'guest',
    pool: 'default',
    endpoints: endpointNames,
    outputTokensMax: 1_000,
    unknownFields: 'drop' as const,
  };
  const rule = createListedFields({ models: { m: model }, mediaHosts: [] });
  const call = readCall(responses, { value: JSON.parse(text), text }, { models: { m: model }, aliases: {}, rule });
  t.is(call.payload, '{"input":"Hi","top_p":0.1000000000000000055,"store":false}');
  t.deepEqual(call.dropped, ['seed_', 'tools.web_search']);
});

test('unknown fields are refused by default, and dropped and named if the model says so', (t) => {
  const fields = { ...question, x_vendor: 1, __proto: 2, constructor: 3, 'a b': 4, '': 5 };
  t.is(faultsOf(responses, fields).length, 5);
  t.is(faultsOf(responses, fields, { unknownFields: 'refuse' }).length, 5);
  const { body, dropped } = read(responses, fields, { unknownFields: 'drop' });
  t.deepEqual(body, { input: 'Hi', store: false });
  t.deepEqual(dropped, ['x_vendor', '__proto', 'constructor', 'a b', '']);
  const listed = read(responses, { ...question, x_vendor: 1 }, { unknownFields: 'drop', extraFields: ['x_vendor'] });
  t.deepEqual([listed.body.x_vendor, listed.dropped], [1, []]);
  const wrong = faultsOf(chat, { messages: ask.messages, x_vendor: 1, temperature: 'hot' }, { unknownFields: 'drop' });
  t.deepEqual(wrong, ['temperature: expected number, received string'], 'known fields are still checked');
});

test('known fields that are refused stay refused where unknown ones are dropped', (t) => {
  const known = [...refusedEngineFields, ...refusedPublishedFields].flatMap(({ fields }) => fields);
  const published = chat.request.fields.published;
  for (const field of [...known, 'top_k', 'Priority', 'maxTokens', 'generationConfig', 'Max_Tokens']) {
    if (field.includes('.') || published.has(field)) continue;
    const settings = { unknownFields: 'drop' as const, extraFields: [] };
    const [fault = 'none'] = faultsOf(chat, { messages: ask.messages, [field]: 5 }, settings);
    t.true(fault.startsWith(`${field}: `), fault);
  }
});

test('a refused field one letter away from a known one is answered with that one', (t) => {
  for (const [field, meant] of [
    ...[
      ['temperatur', 'temperature'],
      ['temperatures', 'temperature'],
      ['tempersture', 'temperature'],
    ],
    ...[
      ['tempreature', 'temperature'],
      ['max_token', 'max_tokens'],
      ['Seed', 'seed'],
      ['topk', 'top_k'],
      ['message', 'messages'],
    ],
  ] as const) {
    const [fault = ''] = faultsOf(chat, { messages: ask.messages, [field]: 1 });
    t.true(
      fault.startsWith(`${field}: is not accepted, did you mean \`${meant}\`? (the operator can allow it: `),
      fault,
    );
  }
  for (const field of ['temperatruee', 'x', 'temp', 'emperatures', `temperature${'e'.repeat(100_000)}`]) {
    t.false(
      (faultsOf(chat, { messages: ask.messages, [field]: 1 })[0] ?? '').includes('did you mean'),
      field.slice(0, 20),
    );
  }
  t.regex(faultsOf(messages, { ...ask, stop_sequence: ['x'] })[0] ?? '', /did you mean `stop_sequences`\?/);
  t.notRegex(
    faultsOf(chat, { messages: ask.messages, stop_sequence: ['x'] })[0] ?? '',
    /did you mean/,
    'of that endpoint',
  );
});

test('bodies with nothing but such tools and fields cost little', (t) => {
  const many = (size: number, item: (index: number) => object) =>
    Array.from({ length: size }, (_, index) => item(index));
  const tools = many(8_000, (index) => ({ type: `web_search_${index}`, name: `n${index}` }));
  const allowed = {
    type: 'allowed_tools',
    mode: 'auto',
    tools: many(8_000, (index) => ({ type: 'function', name: `m${index}` })),
  };
  const names = Object.fromEntries(many(20_000, (index) => [`x_${index}`, 1]) as [string, number][]);
  const start = performance.now();
  read(responses, { ...question, tools: [run, ...tools], tool_choice: allowed }, { unknownFields: 'drop' });
  read(responses, { ...question, ...names }, { unknownFields: 'drop' });
  t.is(faultsOf(responses, { ...question, ...names }).length, 10);
  t.true(performance.now() - start < 2_000);
});
