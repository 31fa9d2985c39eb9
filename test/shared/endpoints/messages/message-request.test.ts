import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import test from 'ava';
import {
  estimateMessagePrompt,
  messagesPrompt,
  readBetas,
} from '../../../../shared/endpoints/messages/message-request.ts';
import { countTokens, messages } from '../../../../shared/endpoints/messages/messages.ts';
import { ApiError } from '../../../../shared/errors.ts';
import { callOf, faultsOf, faultyFields } from '../../../support/endpoints/endpoint-call.ts';

const base = { messages: [{ role: 'user', content: 'Hi' }] };
const asked = { ...base, max_tokens: 10 };

/** Every field of Anthropic's description that both routes take, with a value of each of its types. */
const prompt: Record<string, readonly unknown[]> = {
  cache_control: [{ type: 'ephemeral', ttl: '1h' }, null],
  context_management: [{ edits: [{ type: 'clear_thinking_20251015', keep: 'all' }] }, null],
  output_config: [{ effort: 'high' }, { format: { type: 'json_schema', schema: {} } }, null],
  output_format: [{ type: 'json_schema', schema: {} }, null],
  speed: [null],
  system: ['Be brief.', '', [{ type: 'text', text: 'Be brief.', cache_control: { type: 'ephemeral' } }]],
  thinking: [{ type: 'enabled', budget_tokens: 1_024 }, { type: 'adaptive' }, { type: 'disabled' }, null],
  tool_choice: [{ type: 'auto' }, { type: 'tool', name: 'f', disable_parallel_tool_use: true }, null],
  tools: [
    [],
    [{ name: 'f', input_schema: { type: 'object' } }],
    [{ type: 'custom', name: 'f', input_schema: {} }],
    null,
  ],
};

const published: Record<string, readonly unknown[]> = {
  ...prompt,
  container: [null],
  diagnostics: [{ previous_message_id: null }, null],
  inference_geo: [null],
  metadata: [{ user_id: '{"device":"x"}' }, { user_id: null }, null],
  service_tier: ['auto', 'standard_only', null],
  stop_sequences: [[], ['END'], null],
  stream: [true, false, null],
  temperature: [0, 1, null],
  thread: [null],
  top_k: [0, 40, null],
  top_p: [0, 1, null],
};

test('every published field is accepted in each of its types', (t) => {
  const cases = [
    { endpoint: messages, fields: published, body: asked },
    { endpoint: countTokens, fields: prompt, body: base },
  ];
  for (const { endpoint, fields, body } of cases) {
    for (const [field, values] of Object.entries(fields)) {
      for (const value of values)
        t.deepEqual(faultsOf(endpoint, { ...body, [field]: value }), [], `${field}: ${value}`);
    }
    const schema = endpoint.request.schema as unknown as { shape: object };
    t.deepEqual(Object.keys(schema.shape).sort(), [...Object.keys({ ...fields, ...body }), 'model'].sort());
  }
});

test('blocks of every kind are accepted in messages, and messages of the role system between them', (t) => {
  const content = [
    { type: 'text', text: 'Hi', citations: null },
    { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'AAAA' } },
    { type: 'document', source: { type: 'text', media_type: 'text/plain', data: 'x' }, title: null },
    { type: 'tool_use', id: 'toolu_1', name: 'f', input: {}, caller: { type: 'direct' } },
    {
      type: 'tool_result',
      tool_use_id: 'toolu_1',
      content: 'x',
      is_error: false,
      cache_control: { type: 'ephemeral' },
    },
    { type: 'tool_result', tool_use_id: 'toolu_1', content: [{ type: 'text', text: 'x' }] },
    { type: 'thinking', thinking: 'Hm', signature: 's' },
    { type: 'redacted_thinking', data: 'x' },
  ];
  const turns = ['user', 'system', 'assistant'].map((role) => ({ role, content }));
  t.deepEqual(faultsOf(messages, { ...asked, messages: [...turns, { role: 'system', content: 'x' }] }), []);
});

/** The source of the official SDK's types. */
const sdkTypes = (path: string) =>
  readFileSync(
    createRequire(import.meta.url)
      .resolve(`@anthropic-ai/sdk/resources/beta/${path}.js`)
      .replace(/js$/, 'd.ts'),
    'utf8',
  );

test('blocks of every published type are known, and those that reach beyond the request are refused', (t) => {
  const types = sdkTypes('messages/messages');
  const typesOf = (name: string): string[] => {
    const union = types.match(new RegExp(`export type ${name} = ([^;]+);`))?.[1];
    if (union !== undefined) return union.split('|').flatMap((part) => typesOf(part.trim()));
    const own = types.match(new RegExp(`export interface ${name} \\{[^}]*?^ {4}type: '(\\w+)'`, 'm'))?.[1];
    return own === undefined ? [] : [own];
  };
  const published = typesOf('BetaContentBlockParam');
  t.true(published.length > 20);
  const refused = published.filter(
    (type) => faultsOf(messages, { ...asked, messages: [{ role: 'user', content: [{ type }] }] }).length > 0,
  );
  t.deepEqual(refused, ['container_upload']);
  const system = [{ type: 'image_embeds' }];
  t.deepEqual(faultyFields(messages, { ...asked, system }), ['system[0].type']);
});

test('where a result is from is no address to fetch, and what is in the result is checked', (t) => {
  const asking = (...content: object[]) => ({ ...asked, messages: [{ role: 'user', content }] });
  const url = 'https://a.example/b';
  const image = { type: 'image', source: { type: 'url', url } };
  const fetched = (content: object) => ({
    ...{ type: 'web_fetch_tool_result', tool_use_id: 'a' },
    content: { type: 'web_fetch_result', url, retrieved_at: null, content },
  });
  const text = { type: 'document', source: { type: 'text', media_type: 'text/plain', data: url }, title: 't' };
  const search = (...content: object[]) => ({ type: 'search_result', source: url, title: 't', content });
  const found = { type: 'web_search_result', url, title: 't', encrypted_content: 'AAAA' };
  const searched = { type: 'web_search_tool_result', tool_use_id: 'a', content: [found] };
  t.deepEqual(faultsOf(messages, asking(fetched(text), searched, search({ type: 'text', text: url }))), []);
  const at = 'messages[0].content[0]';
  t.deepEqual(faultyFields(messages, asking(fetched({ type: 'document', source: { type: 'url', url } }))), [
    `${at}.content.content.source.url`,
  ]);
  t.deepEqual(faultyFields(messages, asking(search(image))), [`${at}.content[0].source.url`]);
  for (const type of ['search_result', 'web_search_result', 'web_fetch_result'])
    t.deepEqual(faultyFields(messages, asking({ ...image, type })), [`${at}.source.url`]);
  t.deepEqual(faultyFields(messages, asking({ ...found, Type: 'image' })), [`${at}.url`]);
});

test('a tool that a part of a message defines is checked as one of the request', (t) => {
  const definition = (tool: object) => ({ type: 'tool_addition', tool: { type: 'tool_definition', definition: tool } });
  const hosted = definition({ type: 'web_search_20250305', name: 'web_search' });
  const input_schema = { type: 'object', properties: { a: { type: 'string', pattern: '(a+)+$' } } };
  const changes = (change: object) => ({ type: 'compaction', content: 's', tool_changes: [change] });
  const asking = (...content: object[]) => ({ ...asked, messages: [{ role: 'system', content }] });
  const at = 'messages[0].content[0]';
  t.deepEqual(faultyFields(messages, asking(hosted)), [`${at}.tool.definition.type`]);
  t.deepEqual(faultyFields(messages, asking(definition({ name: 'f', input_schema }))), [
    `${at}.tool.definition.pattern`,
  ]);
  t.deepEqual(faultyFields(messages, asking(changes(hosted))), [`${at}.tool_changes[0].tool.definition.type`]);
  t.deepEqual(faultyFields(messages, asking(changes(definition({ name: 'f', strict: true, input_schema })))), [
    `${at}.tool_changes[0].tool.definition.pattern`,
  ]);
  const plain = definition({ name: 'f', input_schema: { type: 'object' } });
  const byName = { type: 'tool_addition', tool: { type: 'tool_reference', name: 'f' } };
  t.deepEqual(faultsOf(messages, asking(plain, byName, changes(plain), changes(byName))), []);
});

test("fields that spend the operator's money are refused unless they are listed", (t) => {
  for (const field of ['speed', 'container', 'inference_geo']) {
    t.deepEqual(faultyFields(messages, { ...asked, [field]: 'fast' }), [field]);
  }
});

test('every beta of the official SDK that has an effect on messages is passed or refused, and others are removed and named', (t) => {
  const named = sdkTypes('beta').match(/export type AnthropicBeta = ([^;]+);/)?.[1] ?? '';
  const betas = Array.from(named.matchAll(/'([^']+)'/g), ([, name = '']) => name);
  t.true(betas.length > 40);
  const fates = betas.map((name) => {
    try {
      return readBetas(name, () => false).kept === '' ? 'removed' : 'passed';
    } catch {
      return 'refused';
    }
  });
  const ofFate = (fate: string) =>
    betas.filter((_, index) => fates[index] === fate).map((name) => name.replace(/-\d{4}-.*$/, ''));
  t.deepEqual([...new Set(ofFate('refused'))].toSorted(), [
    ...['fast-mode', 'files-api', 'mcp-client', 'mcp-tunnels', 'skills'],
  ]);
  const ofRefusedFieldsAndTools = [
    ...['advisor-tool', 'agent-memory', 'code-execution', 'fallback-credit', 'message-threads', 'server-side-fallback'],
    'user-profiles',
  ];
  const removed = new Set(ofFate('removed'));
  for (const name of ofRefusedFieldsAndTools) t.true(removed.delete(name), name);
  // They are betas of other routes.
  t.deepEqual([...removed].toSorted(), [
    ...[
      'admin-user-sign-out',
      'analytics-usage-cost',
      'ce-claude-code-managed-settings',
      'ce-plugins',
      'ce-user-management',
    ],
    ...[
      'dreaming',
      'efs',
      'experimental-claude-tag',
      'google-managed-data-controls',
      'managed-agents',
      'message-batches',
    ],
    ...['spend-limit-reads', 'telemetry-destinations', 'user-profiles-billing', 'webhooks'],
  ]);
});

/** The headers of Claude Code 2.1.332, of two models and two requests each, and the names that it adds in some accounts. */
const ofClaudeCode = [
  'claude-code-20250219,interleaved-thinking-2025-05-14,context-management-2025-06-27,thinking-token-count-2026-05-13,advanced-tool-use-2025-11-20',
  'claude-code-20250219,interleaved-thinking-2025-05-14,context-management-2025-06-27',
  'claude-code-20250219,interleaved-thinking-2025-05-14,context-management-2025-06-27,mid-conversation-tool-changes-2026-07-01,thinking-token-count-2026-05-13,advanced-tool-use-2025-11-20,effort-2025-11-24',
  'claude-code-20250219,interleaved-thinking-2025-05-14,context-management-2025-06-27,mid-conversation-tool-changes-2026-07-01,effort-2025-11-24',
  'structured-outputs-2025-12-15,redact-thinking-2026-02-12,mid-conversation-system-2026-04-07,prompt-caching-scope-2026-01-05,per-turn-control-2026-07-01',
];
const ofItsTools = 'advisor-tool-2026-03-01,fallback-credit-2026-06-01,message-threads-2026-08-12';

test('what Claude Code sends with its requests is passed, or is removed where its tool or field is refused', (t) => {
  const none = () => false;
  for (const sent of ofClaudeCode)
    t.deepEqual(readBetas(sent, none), { kept: sent.replaceAll(',', ', '), dropped: [] });
  const dropped = ofItsTools.split(',').map((name) => `anthropic-beta.${name}`);
  t.deepEqual(readBetas(`effort-2025-11-24,${ofItsTools}`, none), { kept: 'effort-2025-11-24', dropped });
  t.is(readBetas(ofItsTools, () => true).kept, ofItsTools.replaceAll(',', ', '));
});

test('names of betas are read one by one, and an operator can allow each', (t) => {
  const none = () => false;
  const sent = 'output-128k-2025-02-19,new-2027-01-01 , output-128k-2025-02-19,, interleaved-thinking-2025-05-14';
  t.deepEqual(readBetas(sent, none), {
    kept: 'output-128k-2025-02-19, interleaved-thinking-2025-05-14',
    dropped: ['anthropic-beta.new-2027-01-01'],
  });
  t.deepEqual(readBetas('constructor', none), { kept: '', dropped: ['anthropic-beta.constructor'] });
  const error = t.throws(() => readBetas('fast-mode-2026-02-01', none), { instanceOf: ApiError });
  t.regex(
    error.message,
    /^anthropic-beta: fast-mode-2026-02-01 is not accepted: a faster mode has a higher price \(.*"anthropic-beta\.fast-mode-2026-02-01" in extra_fields/,
  );
  t.is(error.issues[0]?.refused, 'anthropic-beta');
  t.throws(() => readBetas('fast-mode-2031-12-31', none));
  const listed = new Set(['anthropic-beta.fast-mode-2026-02-01', 'anthropic-beta.new-2027-01-01']);
  t.deepEqual(
    readBetas('fast-mode-2026-02-01,new-2027-01-01', (name) => listed.has(name)),
    {
      kept: 'fast-mode-2026-02-01, new-2027-01-01',
      dropped: [],
    },
  );
});

/** A wrong value, and the path that the error names. */
const wrong: readonly [object, string][] = [
  [{ messages: undefined }, 'messages'],
  [{ messages: [] }, 'messages'],
  [{ messages: 'Hi' }, 'messages'],
  [{ messages: [{ role: 'tool', content: 'x' }] }, 'messages[0].role'],
  [{ messages: [...base.messages, { role: 'user' }] }, 'messages[1].content'],
  [{ messages: [{ role: 'user', content: null }] }, 'messages[0].content'],
  [{ messages: [{ role: 'user', content: [{ text: 'x' }] }] }, 'messages[0].content[0].type'],
  [{ messages: [{ role: 'user', content: ['x'] }] }, 'messages[0].content[0]'],
  [{ messages: [{ role: 'user', content: [{ type: 'text', text: 5 }] }] }, 'messages[0].content[0].text'],
  [{ system: 5 }, 'system'],
  [{ system: [{ text: 'x' }] }, 'system[0].type'],
  [{ tools: {} }, 'tools'],
  [{ tools: ['f'] }, 'tools[0]'],
  [{ tools: [{ name: 5 }] }, 'tools[0].name'],
  [{ tools: [{ type: 'computer_20251124', name: 'computer' }] }, 'tools[0].type'],
  [{ tools: [{ type: 'mcp_toolset', mcp_server_name: 'x' }] }, 'tools[0].type'],
  [{ tool_choice: 'auto' }, 'tool_choice'],
  [{ thinking: 'on' }, 'thinking'],
  [{ cache_control: [] }, 'cache_control'],
  [{ context_management: 'x' }, 'context_management'],
  [{ output_config: 5 }, 'output_config'],
  [{ output_format: { type: 'regex', pattern: '(a+)+' } }, 'output_format.type'],
  [{ speed: 1 }, 'speed'],
  [{ not_published: 1 }, 'not_published'],
  [{ mcp_servers: [] }, 'mcp_servers'],
];
const wrongOfMessages: readonly [object, string][] = [
  ...[undefined, null, 0, 1.5, '10', 1_001].map((max_tokens): [object, string] => [{ max_tokens }, 'max_tokens']),
  ...[
    { container: 5 },
    { diagnostics: 'x' },
    { inference_geo: 5 },
    { metadata: 'x' },
    { service_tier: {} },
    { stop_sequences: 'END' },
    { stream: 1 },
    { temperature: 3 },
    { top_k: 1.5 },
    { top_p: 2 },
  ].map((fields): [object, string] => [fields, Object.keys(fields)[0] ?? '']),
  [{ stop_sequences: [5] }, 'stop_sequences[0]'],
];

test('a wrong type is refused on both routes, and named by its path', (t) => {
  for (const [fields, path] of [...wrong, ...wrongOfMessages]) {
    const [first] = faultyFields(messages, { ...asked, ...fields });
    t.is(first, path, JSON.stringify(fields));
  }
  for (const [fields, path] of wrong) t.is(faultyFields(countTokens, { ...base, ...fields })[0], path);
  t.deepEqual(faultyFields(countTokens, asked), ['max_tokens'], 'it counts, and generates nothing');
});

test('the backend gets the request as it came, without its limit and without a tier', (t) => {
  const kept = { ...base, system: 'x', metadata: { user_id: 'u' }, top_k: 3 };
  const call = callOf(messages, { ...kept, max_tokens: 7, service_tier: 'auto', stream: true });
  t.deepEqual(JSON.parse(call.payload), kept);
  t.like(call, { endpoint: '/v1/messages', stream: true, includeUsage: true, assembled: false, outputTokensMax: 7 });
});

test('counting reserves the estimate of the prompt, like a message without an answer', (t) => {
  const {
    payload: body,
    cost,
    outputTokensMax,
    endpoint,
  } = callOf(countTokens, { ...base, system: 'word '.repeat(1_000) });
  const promptTokens = countTokens.request.estimatePrompt(JSON.parse(body), body);
  t.true(promptTokens > 1_000);
  t.like(cost, { promptTokens, reservedTokens: promptTokens, promptField: 'messages' });
  t.deepEqual([endpoint, outputTokensMax], ['/v1/messages/count_tokens', 0]);
});

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
