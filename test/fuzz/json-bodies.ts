import { isDeepStrictEqual } from 'node:util';
import fc from 'fast-check';
import type { Call } from '../../shared/endpoints/definition/read-call.ts';
import { exceededJsonBound } from '../../shared/json/json-bounds.ts';
import { bodyFor } from '../../workers/backend-client/body-for.ts';
import { countPromptTokens } from '../../workers/failover/count-tokens.ts';
import { fuzzPlan } from './fuzz-plan.ts';
import { createReadCall } from './read-body.ts';
import { type FuzzTarget, require } from './search/fuzz-target.ts';

const planFile = fuzzPlan();
const readCall = createReadCall('/v1/chat/completions', planFile);

const anyValue = fc.jsonValue({ maxDepth: 4 });
const text = fc.string({ unit: 'binary' });
const parts = fc.array(
  fc.oneof(
    fc.record({ type: fc.constant('text'), text }),
    fc.record({
      type: fc.constant('image_url'),
      image_url: fc.record({ url: fc.constantFrom('data:,a', 'https://a.b') }),
    }),
    fc.record({ type: text, file: anyValue, text }),
  ),
);
const messages = fc.array(
  fc.record(
    { role: fc.constantFrom('user', 'assistant', 'system', 'tool'), content: fc.oneof(text, parts), x: anyValue },
    { requiredKeys: ['role', 'content'] },
  ),
  { minLength: 1 },
);
const orAny = (right: fc.Arbitrary<unknown>) => fc.oneof({ weight: 8, arbitrary: right }, anyValue);
const fields = {
  max_tokens: orAny(fc.integer({ min: 1, max: 5_000 })),
  max_completion_tokens: orAny(fc.integer({ min: 1, max: 5_000 })),
  n: orAny(fc.integer({ min: 1, max: 128 })),
  temperature: orAny(fc.double({ min: 0, max: 2 })),
  stop: orAny(fc.array(text)),
  tools: orAny(fc.array(fc.record({ type: fc.constant('function'), function: anyValue }))),
  response_format: orAny(fc.record({ type: fc.constantFrom('text', 'json_object', 'regex'), x: anyValue })),
  logit_bias: orAny(fc.dictionary(text, fc.double())),
  metadata: orAny(fc.dictionary(text, anyValue)),
  service_tier: orAny(text),
  seed: orAny(fc.maxSafeInteger()),
  top_k: anyValue,
  chat_template_kwargs: orAny(fc.dictionary(text, anyValue)),
};
/** Usually valid, with a few fields each. */
const calls = fc
  .record({
    messages: orAny(messages),
    some: fc.record(fields, { requiredKeys: [] }),
    names: fc.subarray(Object.keys(fields), { maxLength: 4 }),
    stream: fc.boolean(),
  })
  .map(({ messages, some, names, stream }) => {
    const asked = Object.entries(some).filter(([name]) => names.includes(name));
    return JSON.stringify({ model: 'small-chat', messages, ...Object.fromEntries(asked), ...(stream && { stream }) });
  });

/** Bodies of chat completions, from the client's bytes to those for the backend. */
export const jsonBodies: FuzzTarget = {
  promise: 'a body is a chat call whose bounds agree with JSON.parse, or one declared 400 or 413',
  words: [
    ...['{', '}', '[', ']', ':', ',', '"', '\\"', '\\\\', '\\u0000', '\\ud800', '\\udc00', 'null', 'true', 'false'],
    ...['0', '-0', '1e999', '-1e-999', '9007199254740993', '12345678901234567890', '0.1000000000000000055', '01', '1.'],
    ...['"messages":', '"role":"user"', '"role":"tool"', '"content":', '"content":null', '"model":"small-chat"'],
    ...[
      '"max_tokens":',
      '"max_completion_tokens":',
      '"n":',
      '"stream":true',
      '"stream_options":{"include_usage":true}',
    ],
    ...['"service_tier":"auto"', '"tools":[{"type":"function"}]', '"type":"image_url"', '"image_url":{"url":"data:,"}'],
    ...['"response_format":{"type":"json_object"}', '"logit_bias":{"1":2}', '"stop":["a"]', '"seed":1', '"top_k":1'],
    ...['"__proto__":', '"constructor":', '"toJSON":1', '\ufeff', '\u2028', ' ', '\n', '//', '/*', 'NaN'],
  ],
  structured: calls.map((text) => Buffer.from(text)),
  async check(input) {
    checkBounds(input);
    const read = await readCall(input);
    if (typeof read === 'string') return read;
    await checkCall(read.call, read.text);
    return 'accepted';
  },
};

/** The bounds are those of the text that `JSON.parse` accepts, counted in another way. */
function checkBounds(input: Buffer): void {
  exceededJsonBound(input);
  const value = parsed(input);
  if (value === undefined) return;
  const exact = countedBounds(input.toString());
  require(exceededJsonBound(input, exact) === undefined, `more than ${JSON.stringify(exact)} was counted`);
  for (const [name, bound] of Object.entries(exact)) {
    if (bound === 0) continue;
    require(exceededJsonBound(input, { ...exact, [name]: bound - 1 }) !== undefined, `fewer ${name} than ${bound}`);
  }
  // Of two members with one name the parser keeps one.
  require(partsOf(value) <= exact.partsMax, 'the parsed value has more parts than its text');
}

function parsed(input: Buffer): unknown {
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(input)) ?? undefined;
  } catch {
    return undefined;
  }
}

function countedBounds(text: string): { depthMax: number; partsMax: number; commasMax: number } {
  const signs = text.replace(/"(?:[^"\\]|\\.)*"/gs, '').replace(/[^[\]{},:]/g, '');
  let [depth, depthMax] = [0, 0];
  for (const sign of signs) {
    if (sign === '[' || sign === '{') depthMax = Math.max(depthMax, ++depth);
    else if (sign === ']' || sign === '}') depth--;
  }
  const count = (wanted: RegExp) => (signs.match(wanted) ?? []).length;
  return { depthMax, partsMax: count(/[[{:]/g), commasMax: count(/,/g) };
}

function partsOf(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0;
  const items: unknown[] = Object.values(value);
  return items.reduce<number>((sum, item) => sum + partsOf(item), 1 + (Array.isArray(value) ? 0 : items.length));
}

const ours = new Set(['model', 'max_tokens', 'max_completion_tokens', 'service_tier', 'stream', 'stream_options']);
const backends = Object.values(planFile.backends);

/** The client's fields reach each backend unchanged, except null and half characters, in addition to the fields that the service sets. */
async function checkCall(call: Call, text: string): Promise<void> {
  const { cost, outputTokensMax } = call;
  const model = planFile.models[call.model];
  require(model !== undefined &&
    outputTokensMax <= (model.outputTokensMax ?? 0), 'its output limit is above that of its model');
  const isCount = (tokens: number) => Number.isSafeInteger(tokens) && tokens >= 0;
  require(outputTokensMax >= 1 &&
    Object.values(cost).every((one) => typeof one === 'string' || isCount(one)), 'its cost is invalid');
  const asked = withoutOurs(JSON.parse(text));
  for (const backend of backends) {
    const sent = JSON.parse(bodyFor(call, backend));
    require(isDeepStrictEqual(withoutOurs(sent), asked), `${backend.url} receives other fields`);
    const limits = ['max_tokens', 'max_completion_tokens'].map((field) => sent[field]);
    const named = call.limitFields.length > 0 ? call.limitFields : ['max_tokens'];
    require(named.every((field) => sent[field] === outputTokensMax), 'the output limit differs');
    require(limits.filter((limit) => limit !== undefined).length === named.length, 'another output limit is sent');
    require(!('service_tier' in sent), 'service_tier is sent');
    require((sent.stream === true) === (call.stream || call.assembled), 'stream differs');
  }
  require(isCount(await countPromptTokens(call)), 'the prompt cannot be counted');
}

function withoutOurs(value: object): unknown {
  return comparable(Object.fromEntries(Object.entries(value).filter(([name]) => !ours.has(name))));
}

/** Where null may be data it reaches a backend, so it is left out on both sides. */
function comparable(value: unknown): unknown {
  if (typeof value === 'string') return value.toWellFormed();
  if (Array.isArray(value)) return value.map(comparable);
  if (typeof value !== 'object' || value === null) return value;
  const whole = Object.fromEntries(Object.entries(value).map(([name, member]) => [name.toWellFormed(), member]));
  const present = Object.entries(whole).filter(([, member]) => member !== null);
  return Object.fromEntries(present.map(([name, member]) => [name, comparable(member)]));
}
