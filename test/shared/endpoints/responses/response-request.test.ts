import test from 'ava';
import { estimateInput, inputPrompt } from '../../../../shared/endpoints/responses/response-request.ts';
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

const estimate = (request: object) => estimateInput(request, JSON.stringify(request));
const user = (...content: object[]) => ({ input: [{ role: 'user', content }] });
const data = (bytes: number) => 'A'.repeat((bytes / 3) * 4);
const png = (bytes: number) => `data:image/png;base64,${data(bytes)}`;

/** How many tokens the part adds to the same part without its data. */
function added(part: object, emptied: object): number {
  return estimate(user(part)) - estimate(user(emptied));
}

test('an image whose size cannot be read counts 1,500 tokens, and an address also counts as text', (t) => {
  for (const bytes of [3, 300_000]) {
    const image = (url: string) => ({ type: 'input_image', image_url: url });
    const tokens = estimate(user(image(png(bytes))));
    t.true(tokens > 1_500 && tokens < 1_600, `${tokens}`);
  }
  const short = estimate(user({ type: 'input_image', image_url: 'https://a.example/a.png' }));
  const long = estimate(user({ type: 'input_image', image_url: `https://a.example/${'a/'.repeat(500)}a.png` }));
  t.true(short > 1_500 && long > short + 200, `${short}, ${long}`);
  t.true(estimate(user({ type: 'input_image', file_id: 'file-1' })) > 1_500);
});

test('sound counts a token for 100 bytes, and a file one for 64 bytes', (t) => {
  const sound = (text: string) => ({ type: 'input_audio', input_audio: { data: text, format: 'wav' } });
  t.is(added(sound(data(30_000)), sound(data(3))), 299);
  const file = (text: string) => ({ type: 'input_file', filename: 'a.pdf', file_data: text });
  t.is(added(file(data(30_720)), file(data(6))), 480 - 1);
  t.true(estimate(user(file(`data:application/pdf;base64,${data(30_720)}`))) > 480);
});

test('media in the output of a tool counts, too', (t) => {
  const of = (output: unknown) => estimate({ input: [{ type: 'function_call_output', call_id: 'c', output }] });
  t.true(of([{ type: 'input_image', image_url: png(300_000) }]) < 1_600);
  t.true(of([{ type: 'input_image', image_url: png(3) }]) > 1_500);
});

test('a part that only looks like media counts as text', (t) => {
  const long = 'no base64! '.repeat(1_000);
  for (const part of [
    { type: 'input_audio', input_audio: { data: long } },
    { type: 'input_audio', input_audio: null },
    { type: 'input_file', file_data: long },
    { type: 'input_image', image_url: { url: long } },
    { type: 'input_text', image_url: png(3_000) },
  ]) {
    const whole = user(part);
    t.true(estimate(whole) >= 0 && Number.isSafeInteger(estimate(whole)));
  }
  t.true(estimate(user({ type: 'input_file', file_data: long })) > 2_000);
});

test('everything in the request counts: instructions, tools, names of fields, and each item', (t) => {
  const base = { input: 'Hi' };
  const long = 'word '.repeat(400);
  for (const more of [{ instructions: long }, { tools: [{ type: 'function', description: long }] }, { input: long }])
    t.true(estimate({ ...base, ...more }) > 400, JSON.stringify(more).slice(0, 50));
  const items = (count: number) => ({ input: Array.from({ length: count }, () => ({ role: 'user', content: 'Hi' })) });
  t.true(estimate(items(20)) - estimate(items(10)) >= 10 * 4);
});

test('any object can be estimated, valid or not', (t) => {
  for (const input of [
    undefined,
    null,
    5,
    {},
    [null],
    [[[]]],
    [{ content: 5 }],
    [{ content: [null, { type: 'input_image' }] }],
  ])
    t.true(estimate({ input }) > 0);
});

test('the reservation is the estimate and the limit', (t) => {
  const call = callOf(responses, { input: 'Hi', max_output_tokens: 9, instructions: 'Be brief.' });
  t.deepEqual(call.cost, {
    promptTokens: estimateInput({ input: 'Hi' }, call.payload),
    reservedTokens: estimateInput({ input: 'Hi' }, call.payload) + 9,
    ...{ outputTokensMax: 9, choices: 1 },
    ...{ promptField: 'input', limitField: 'max_output_tokens', choicesField: 'n' },
  });
});

test('the tokenizer gets every text that the model reads, once', (t) => {
  const input = [
    { role: 'user', content: 'a' },
    {
      role: 'user',
      content: [
        { type: 'input_text', text: 'b' },
        { type: 'input_image', image_url: 'https://x' },
      ],
    },
    { type: 'reasoning', id: 'x', summary: [{ type: 'summary_text', text: 'c' }], encrypted_content: 'no' },
    { type: 'function_call', call_id: 'no', name: 'no', arguments: '{"d":1}' },
    { type: 'function_call_output', call_id: 'no', output: [{ type: 'input_text', text: 'e' }] },
    { type: 'message', role: 'assistant', content: [{ type: 'refusal', refusal: 'f' }] },
    { type: 'custom_tool_call', call_id: 'no', name: 'no', input: 'g' },
  ];
  t.deepEqual(inputPrompt({ instructions: 'Be brief.', input }), {
    texts: ['Be brief.', 'a', 'b', 'c', '{"d":1}', 'e', 'f', 'g'],
    // Around the items, of the image and the encrypted reasoning.
    tokens: 7 * 4 + 1_500 + 1,
  });
  const tool = { type: 'function', name: 'weather', description: 'Says how it is outside.' };
  t.deepEqual(inputPrompt({ input: 'Hi', tools: [tool] }).texts, ['Hi', JSON.stringify(tool)]);
  const text = { format: { type: 'json_schema', schema: { title: 'x' } } };
  t.deepEqual(inputPrompt({ input: 'Hi', text }).texts, ['Hi', JSON.stringify(text)]);
  t.deepEqual(inputPrompt({ input: 'Hi' }), { texts: ['Hi'], tokens: 4 });
  t.deepEqual(inputPrompt({}), { texts: [], tokens: 4 });
});
