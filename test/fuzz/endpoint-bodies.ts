import fc from 'fast-check';
import type { Call } from '../../shared/endpoints/definition/read-call.ts';
import { endpoints } from '../../shared/endpoints/endpoints.ts';
import { bodyFor } from '../../workers/backend-client/body-for.ts';
import { countPromptTokens } from '../../workers/failover/count-tokens.ts';
import { fuzzPlan } from './fuzz-plan.ts';
import { createReadCall } from './read-body.ts';
import { type FuzzTarget, require } from './search/fuzz-target.ts';

const plan = fuzzPlan();
const [name, model] = Object.entries(plan.models)[0] ?? [];
if (name === undefined || model === undefined) throw new Error('the plan file of the tests has no model');
const offered = [...new Set(endpoints.map(({ name }) => name))];
const planFile = { ...plan, models: { ...plan.models, [name]: { ...model, endpoints: offered } } };
const readers = endpoints.map((endpoint) => [endpoint, createReadCall(endpoint.path, planFile)] as const);
const backends = Object.values(planFile.backends);

const anyValue = fc.jsonValue({ maxDepth: 3 });
const text = fc.string({ unit: 'binary', maxLength: 30 });
const orAny = (right: fc.Arbitrary<unknown>) => fc.oneof({ weight: 8, arbitrary: right }, anyValue);
const tokenIds = fc.array(fc.nat(100_000), { minLength: 1, maxLength: 4 });
const texts = fc.oneof(
  text,
  fc.array(text, { minLength: 1, maxLength: 4 }),
  tokenIds,
  fc.array(tokenIds, { minLength: 1 }),
);
const url = fc.constantFrom('data:image/png;base64,aa', 'https://a.b', 'http://a.b', 'file:///a');
const parts = fc.array(
  fc.oneof(
    fc.record({ type: fc.constantFrom('text', 'input_text', 'output_text', 'thinking'), text }),
    fc.record({ type: fc.constant('input_image'), image_url: url }),
    fc.record({ type: fc.constantFrom('image', 'document'), source: fc.record({ type: fc.constant('url'), url }) }),
    fc.record({ type: fc.constantFrom('tool_use', 'tool_result', 'input_file'), content: anyValue, input: anyValue }),
  ),
  { maxLength: 3 },
);
const messages = fc.array(
  fc.record({ role: fc.constantFrom('user', 'assistant', 'system'), content: fc.oneof(text, parts) }),
  { minLength: 1, maxLength: 4 },
);
const calls = fc
  .record(
    {
      model: fc.constant(name),
      ...{ messages: orAny(messages), prompt: orAny(texts), input: orAny(fc.oneof(texts, messages)) },
      ...{
        query: orAny(text),
        documents: orAny(fc.array(text, { minLength: 1 })),
        system: orAny(fc.oneof(text, parts)),
      },
      ...{ max_tokens: orAny(fc.nat(5_000)), max_output_tokens: orAny(fc.nat(5_000)), n: orAny(fc.nat(8)) },
      ...{
        best_of: fc.nat(8),
        echo: fc.boolean(),
        dimensions: orAny(fc.nat(2_000)),
        store: anyValue,
        stream: anyValue,
      },
      ...{ previous_response_id: anyValue, background: anyValue, instructions: orAny(text), top_n: orAny(fc.nat(5)) },
      ...{
        tools: orAny(fc.array(fc.record({ type: fc.constantFrom('function', 'custom', 'web_search'), name: text }))),
      },
    },
    { requiredKeys: ['model'] },
  )
  .map((body) => JSON.stringify(body));

/** Bodies at every endpoint, from the client's bytes to those for the backend. */
export const endpointBodies: FuzzTarget = {
  promise: 'at each endpoint a body is a call with a bounded cost, or one declared 400 or 413',
  words: [
    ...['{', '}', '[', ']', ':', ',', '"', '\\"', '\\ud800', 'null', 'true', 'false', '-1', '1e999', '0'],
    ...[`"model":"${name}"`, '"prompt":', '"input":', '"query":', '"documents":', '"messages":', '"system":'],
    ...[
      '"role":"user"',
      '"content":',
      '"type":"input_image"',
      '"image_url":"data:,"',
      '"source":{"url":"https://a.b"}',
    ],
    ...['"max_tokens":', '"max_output_tokens":', '"n":', '"best_of":', '"echo":true', '"stream":true', '"store":true'],
    ...['"previous_response_id":"a"', '"background":true', '"conversation":"a"', '"tools":[{"type":"function"}]'],
    ...['"__proto__":', '"constructor":', '"toJSON":1', '\ufeff', '\u2028', 'NaN'],
  ],
  structured: calls.map((text) => Buffer.from(text)),
  async check(input) {
    const accepted = [];
    for (const [endpoint, read] of readers) {
      const result = await read(input);
      if (typeof result === 'string') continue;
      await checkCall(result.call);
      accepted.push(endpoint.name);
    }
    return accepted.length === 0 ? 'refused' : `accepted: ${[...new Set(accepted)].join(', ')}`;
  },
};

async function checkCall(call: Call): Promise<void> {
  const isCount = (value: unknown) => Number.isSafeInteger(value) && Number(value) >= 0;
  const { outputTokensMax, cost } = call;
  require(outputTokensMax <= (model?.outputTokensMax ?? 0), 'its output limit is above that of its model');
  require(Object.values(cost).every((one) => typeof one === 'string' || isCount(one)), 'its cost is invalid');
  for (const backend of backends) {
    const sent = JSON.parse(bodyFor(call, backend));
    for (const field of ['service_tier', 'previous_response_id', 'conversation']) {
      require(sent[field] == null, `${field} is sent`);
    }
    require(sent.store !== true && sent.background !== true, 'state is asked for');
    require((sent.stream === true) === (call.stream || call.assembled), 'stream differs');
  }
  require(isCount(await countPromptTokens(call)), 'the prompt cannot be counted');
}
