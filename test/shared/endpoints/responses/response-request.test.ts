import test from 'ava';
import { responses } from '../../../../shared/endpoints/responses/responses.ts';
import { callOf, faultsOf, faultyFields } from '../../../support/endpoints/endpoint-call.ts';

const input = 'Hi';

/** Every field of OpenAI's description of responses that the service does not refuse, with a value of each of its types. */
const published: Record<string, readonly unknown[]> = {
  background: [false, null],
  context_management: [[], [{ type: 'compaction', compact_threshold: 1_000 }], null],
  conversation: [null],
  include: [[], ['reasoning.encrypted_content'], null],
  instructions: ['Be brief.', '', null],
  max_output_tokens: [1, 16, 1_000, null],
  max_tool_calls: [1, null],
  metadata: [{}, { a: 'b' }, null],
  moderation: [{ model: 'x' }, null],
  parallel_tool_calls: [true, false, null],
  previous_response_id: [null],
  prompt: [{ variables: { city: 'Köln' } }, { variables: null }, null],
  prompt_cache_key: ['x', null],
  prompt_cache_options: [{}, null],
  prompt_cache_retention: ['24h', null],
  reasoning: [{ effort: 'high', summary: 'auto' }, {}, null],
  safety_identifier: ['x', null],
  service_tier: ['auto', 'flex', null],
  store: [false, null],
  stream: [true, false, null],
  stream_options: [{ include_obfuscation: false }, null],
  temperature: [0, 2, 0.5, null],
  text: [{ format: { type: 'json_schema', name: 'x', schema: {} }, verbosity: 'low' }, {}, null],
  tool_choice: ['auto', 'none', { type: 'function', name: 'f' }, null],
  tools: [[], [{ type: 'function', name: 'f', parameters: null, strict: null }], [{ type: 'custom', name: 'c' }], null],
  top_logprobs: [0, 20, null],
  top_p: [0, 1, null],
  truncation: ['auto', null],
  user: ['x', null],
};

test('every published field is accepted in each of its types', (t) => {
  for (const [field, values] of Object.entries(published)) {
    for (const value of values) t.deepEqual(faultsOf(responses, { input, [field]: value }), [], `${field}: ${value}`);
  }
  const schema = responses.request.schema as unknown as { shape: object };
  t.deepEqual(Object.keys(schema.shape).sort(), [...Object.keys(published), 'model', 'input'].sort());
});

test('an item with a role and without a type is sent as a message', (t) => {
  const sent = (value: unknown) => JSON.parse(callOf(responses, { input: value }).payload).input;
  const answer = { role: 'assistant', content: 'Hi' };
  const call = { type: 'function_call', call_id: 'c', name: 'f', arguments: '{}' };
  t.deepEqual(sent([{ ...answer, type: null }, answer, call]), [
    { ...answer, type: 'message' },
    { ...answer, type: 'message' },
    call,
  ]);
  t.is(sent('Hi'), 'Hi');
});

test('items of every kind are accepted, also with fields that are not known', (t) => {
  const items = [
    { role: 'user', content: 'Hi' },
    { type: 'message', id: 'msg_1', role: 'developer', content: [{ type: 'input_text', text: 'Hi' }] },
    {
      type: 'reasoning',
      id: 'rs_1',
      summary: [],
      content: [{ type: 'reasoning_text', text: 'Hm' }],
      encrypted_content: null,
    },
    { type: 'function_call', id: 'fc_1', call_id: 'c', name: 'f', arguments: '{}', status: 'completed' },
    { type: 'function_call_output', id: 'fco_1', call_id: 'c', output: 'x' },
    { type: 'function_call_output', call_id: 'c', output: [{ type: 'input_text', text: 'x' }] },
    { type: 'custom_tool_call_output', call_id: 'c', output: 'x' },
    { type: 'a_new_type', more: {} },
  ];
  t.deepEqual(faultsOf(responses, { input: items }), []);
  t.deepEqual(faultsOf(responses, { input: [] }), []);
});

/** A wrong value of each field, and the path that the error names. */
const wrong: readonly [object, string][] = [
  [{ input: 5 }, 'input'],
  [{ prompt: { variables: { a: { type: 'input_image', image_url: 'http://10.0.0.1' } } } }, 'prompt.variables'],
  [{ input: {} }, 'input'],
  [{ input: null }, 'input'],
  [{ input: [5] }, 'input[0]'],
  [{ input: [{ role: 'user', content: 'x' }, 'x'] }, 'input[1]'],
  ...[
    { context_management: {} },
    { include: 'all' },
    { include: [5] },
    { instructions: ['x'] },
    { max_output_tokens: 0 },
    { max_output_tokens: 1.5 },
    { max_output_tokens: '5' },
    { max_output_tokens: 1_001 },
    { max_tool_calls: 0 },
    { metadata: 'x' },
    { parallel_tool_calls: 'yes' },
    { prompt: 'x' },
    { prompt_cache_key: 5 },
    { prompt_cache_options: [] },
    { prompt_cache_retention: 24 },
    { reasoning: 'high' },
    { safety_identifier: {} },
    { service_tier: 1 },
    { stream: 'true' },
    { stream_options: true },
    { temperature: 2.1 },
    { temperature: '1' },
    { text: 'json' },
    { tool_choice: 5 },
    { tools: {} },
    { top_logprobs: 21 },
    { top_p: -0.1 },
    { truncation: false },
    { user: {} },
  ].map((fields): [object, string] => [fields, Object.keys(fields)[0] ?? '']),
  [{ tools: [{ name: 'f' }] }, 'tools[0].type'],
  [{ tools: [{ type: 'mcp', server_url: 'https://x.example' }] }, 'tools[0].type'],
  [{ tools: [{ type: 'a_new_type' }] }, 'tools[0].type'],
  [{ not_published: 1 }, 'not_published'],
  [{ n: 129 }, 'n'],
];

test('a wrong type is refused, and named by its path', (t) => {
  for (const [fields, path] of wrong) {
    const [first] = faultyFields(responses, { input, ...fields });
    t.true(first === path || first?.startsWith(`${path}.`) === true, `${JSON.stringify(fields)}: ${first}`);
  }
});

test('the input and the model are required; the name of the model is not empty', (t) => {
  t.deepEqual(faultyFields(responses, {}), ['input']);
  t.deepEqual(faultyFields(responses, { model: undefined, input }), ['model']);
  t.deepEqual(faultyFields(responses, { model: '', input }), ['model']);
});

test('what needs a stored response is refused, by name', (t) => {
  const stateful = { previous_response_id: 'resp_1', conversation: 'conv_1', background: true, store: true };
  t.deepEqual(faultyFields(responses, { input, ...stateful }).sort(), Object.keys(stateful).sort());
  t.deepEqual(faultsOf(responses, { input, conversation: { id: 'conv_1' } }), [
    'conversation: is not supported: this service stores no responses',
  ]);
  const message = { type: 'message', role: 'user', content: 'Hi' };
  for (const reference of [{ type: 'item_reference', id: 'x' }, { type: null, id: 'x' }, { id: 'x' }]) {
    t.deepEqual(faultsOf(responses, { input: [message, reference] }), [
      'input[1]: is not supported: this service stores no responses',
    ]);
  }
});

test("a prompt of the operator's account is refused, in any spelling", (t) => {
  t.deepEqual(faultyFields(responses, { input, prompt: { id: 'x', variables: null } }), ['prompt.id']);
  t.deepEqual(faultyFields(responses, { input, prompt: { ID: 'x' } }), ['prompt.ID']);
  t.regex(faultsOf(responses, { input, prompt: { id: 'x' } })[0] ?? '', /"prompt\.id" in extra_fields/);
});

test('the backend gets the request without state, without fields that it does not need, and without a limit of its own', (t) => {
  const sent = { background: false, conversation: null, previous_response_id: null, service_tier: 'flex', store: null };
  const dropped = { client_metadata: { turn_id: 'x' }, max_output_tokens: 7 };
  const kept = { input, instructions: 'Be brief.', temperature: 0.5, top_k: 3 };
  const call = callOf(responses, { ...sent, ...dropped, ...kept, stream: true });
  t.deepEqual(JSON.parse(call.payload), { ...kept, store: false });
  t.like(call, {
    endpoint: '/v1/responses',
    model: 'm',
    stream: true,
    assembled: false,
    choices: 1,
    outputTokensMax: 7,
  });
  t.is(callOf(responses, { input }).outputTokensMax, 1_000, "the model's own limit");
});

test('an alias is the model that it names', (t) => {
  t.like(callOf(responses, { input, model: 'other name' }), { model: 'm', requestedModel: 'other name' });
});
