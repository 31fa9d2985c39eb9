import test from 'ava';
import fc from 'fast-check';
import { parseJsonBody } from '../../../../ingress/listener/json-body.ts';
import { type RequestCost, refuseLargerThanLimit } from '../../../../shared/endpoints/tokens/request-cost.ts';
import { ApiError } from '../../../../shared/errors.ts';
import { bodyFor } from '../../../../workers/backend-client/body-for.ts';
import { answerChat, chatSchema } from '../../../stack/model-server/chat/answer-chat.ts';
import { readChat } from '../../../support/read-chat.ts';

const model = { tier: 'guest', pool: 'default', backends: ['a'], outputTokensMax: 1_000 };
const backend = { url: 'http://127.0.0.1:8000/v1', location: 'on-prem' } as const;
const messages = [{ role: 'user', content: 'Hi' }];

function callOf(fields: object) {
  const text = JSON.stringify({ model: 'm', messages, ...fields });
  return readChat(parseJsonBody(new TextEncoder().encode(text)), { m: model });
}

const costOf = (fields: object) => callOf(fields).cost;
const sentFor = (fields: object) => JSON.parse(bodyFor(callOf(fields), backend));

function faultsOf(fields: object): string[] {
  try {
    callOf(fields);
    return [];
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    return [error.code, ...error.message.split('; ')];
  }
}

test('the output limit is the largest of all fields, or else the model’s, and is sent to the backend', (t) => {
  const cases: [fields: object, outputTokensMax: number, limitField: string][] = [
    [{}, 1_000, 'max_tokens'],
    [{ max_tokens: null, max_completion_tokens: null, n: null }, 1_000, 'max_tokens'],
    [{ max_tokens: 1 }, 1, 'max_tokens'],
    [{ max_completion_tokens: 5 }, 5, 'max_completion_tokens'],
    [{ max_tokens: 1, max_completion_tokens: 1_000 }, 1_000, 'max_completion_tokens'],
    [{ max_tokens: 900, max_completion_tokens: 2 }, 900, 'max_tokens'],
    [{ max_tokens: 1, n_predict: 700 }, 700, 'n_predict'],
    [{ max_tokens: 1, max_new_tokens: 701 }, 701, 'max_new_tokens'],
    [{ max_tokens: 1, max_output_tokens: 702 }, 702, 'max_output_tokens'],
    [{ max_tokens: 1, num_predict: 703 }, 703, 'num_predict'],
    [{ n_predict: null, num_predict: 4 }, 4, 'num_predict'],
    [{ max_tokens: 1, options: { num_predict: 704 } }, 704, 'options.num_predict'],
    [{ max_tokens: 1, extra_body: { max_tokens: 705 } }, 705, 'extra_body.max_tokens'],
    [{ max_tokens: 1, parameters: { max_new_tokens: 706 }, max_new_tokens: 3 }, 706, 'parameters.max_new_tokens'],
    [{ max_tokens: 10, options: null, extra_body: [{ max_tokens: 99 }] }, 10, 'max_tokens'],
    [{ max_tokens: 10, min_tokens: 5_000, ignore_eos: true, metadata: { max_tokens: 99 } }, 10, 'max_tokens'],
  ];
  for (const [fields, outputTokensMax, limitField] of cases) {
    t.like(costOf(fields), { outputTokensMax, limitField }, JSON.stringify(fields));
    const { max_tokens: one, max_completion_tokens: other } = sentFor(fields);
    t.is(one ?? other, outputTokensMax);
  }
});

test('a model that clamps lowers a published limit that is larger, and refuses any other', (t) => {
  const clamping = { m: { ...model, clampOutputTokens: true } };
  const callOf = (fields: object) =>
    readChat(parseJsonBody(new TextEncoder().encode(JSON.stringify({ model: 'm', messages, ...fields }))), clamping);
  for (const fields of [
    { max_tokens: 5_000 },
    { max_completion_tokens: 5_000 },
    { max_tokens: 5_000, max_completion_tokens: 7 },
  ]) {
    const call = callOf(fields);
    t.is(call.outputTokensMax, 1_000);
    for (const field of Object.keys(fields)) t.is(JSON.parse(bodyFor(call, backend))[field], 1_000);
  }
  t.is(callOf({ max_tokens: 7 }).outputTokensMax, 7);
  for (const fields of [{ n_predict: 1_001 }, { max_tokens: 0 }, { n: 129 }])
    t.throws(() => callOf(fields), { instanceOf: ApiError });
});

test('reserves for every choice that a server may generate', (t) => {
  const cases: [fields: object, choices: number, choicesField: string][] = [
    [{}, 1, 'n'],
    [{ n: 3 }, 3, 'n'],
    [{ n: 3, best_of: 7 }, 7, 'best_of'],
    [{ n: 7, best_of: 3 }, 7, 'n'],
    [{ best_of: null, n: 2 }, 2, 'n'],
    [{ n_cmpl: 4 }, 4, 'n_cmpl'],
    [{ n: 2, sampling_params: { n: 5 } }, 5, 'sampling_params.n'],
  ];
  for (const [fields, choices, choicesField] of cases) {
    const cost = costOf({ ...fields, max_tokens: 10 });
    t.like(cost, { choices, choicesField }, JSON.stringify(fields));
    t.is(cost.reservedTokens, cost.promptTokens + 10 * choices);
  }
});

test('names an invalid number of tokens or choices, and one above the model’s maximum', (t) => {
  const cases: [fields: object, faults: string[]][] = [
    [{ max_tokens: 1_001 }, ['max_tokens: expected at most 1000']],
    [{ max_tokens: 1, max_completion_tokens: 1_001 }, ['max_completion_tokens: expected at most 1000']],
    [
      { n_predict: 1_001, max_new_tokens: -1, best_of: 129 },
      [
        'n_predict: expected at most 1000',
        'max_new_tokens: expected a positive whole number',
        'best_of: expected at most 128',
      ],
    ],
    [{ n_predict: -1 }, ['n_predict: expected a positive whole number']],
    [{ num_predict: 1.5 }, ['num_predict: expected a positive whole number']],
    [{ max_output_tokens: '5' }, ['max_output_tokens: expected a positive whole number']],
    [{ max_new_tokens: [1] }, ['max_new_tokens: expected a positive whole number']],
    [{ best_of: 0 }, ['best_of: expected a positive whole number']],
    [{ options: { num_predict: -2 } }, ['options.num_predict: expected a positive whole number']],
    [{ extra_body: { n: 1_000 } }, ['extra_body.n: expected at most 128']],
  ];
  for (const [fields, faults] of cases) t.deepEqual(faultsOf(fields), ['VALIDATION_ERROR', ...faults]);
});

test('a field that a server could read as the limit in another spelling is rejected', (t) => {
  const cases: [fields: object, fault: string][] = [
    [{ Max_Tokens: 5 }, 'Max_Tokens: must be spelled max_tokens'],
    [{ MODEL: 'other' }, 'MODEL: must be spelled model'],
    [{ N: 100 }, 'N: must be spelled n'],
    [{ 'max_to\u212aens': 5 }, 'max_to\u212aens: must be spelled max_tokens'],
    [{ 'be\u017ft_of': 5 }, 'be\u017ft_of: must be spelled best_of'],
    [{ Options: { num_predict: 5 } }, 'Options: must be spelled options'],
    [{ options: { Num_Predict: 5 } }, 'options.Num_Predict: must be spelled num_predict'],
  ];
  for (const [fields, fault] of cases) t.deepEqual(faultsOf(fields), ['VALIDATION_ERROR', fault]);
  t.deepEqual(faultsOf({ maxTokens: 5, X_MODEL: 'a', Temperature: 1 }), []);
});

test('counts everything that may become part of the prompt, in any field', (t) => {
  const plain = costOf({}).promptTokens;
  const words = 'the quick brown fox jumps over the lazy dog '.repeat(500);
  const places: object[] = [
    { messages: [{ role: 'system', content: words }, ...messages] },
    { messages: [{ role: 'user', content: [{ type: 'text', text: words }] }] },
    { messages: [{ role: 'user', content: [{ type: 'unheard_of', inside: { deep: [words] } }] }] },
    { messages: [{ role: 'user', content: 'Hi', reasoning_content: words }] },
    { messages: [...messages, { role: 'assistant', tool_calls: [{ function: { name: 'f', arguments: words } }] }] },
    { tools: [{ type: 'function', function: { name: 'f', description: words } }] },
    { response_format: { type: 'json_schema', json_schema: { schema: { description: words } } } },
    { prediction: { type: 'content', content: words } },
    { x_vendor: { documents: [words] } },
    { [words]: 1 },
  ];
  for (const place of places) {
    const { promptTokens } = costOf(place);
    t.true(promptTokens - plain >= 4_500 && promptTokens - plain < 7_500, `${promptTokens} for ${Object.keys(place)}`);
  }
});

test('a prompt of many messages costs more than their text', (t) => {
  const conversation = Array.from({ length: 100 }, () => ({ role: 'user', content: '' }));
  t.true(costOf({ messages: conversation }).promptTokens >= 400);
});

const image = `data:image/png;base64,${'iVBORw0KGgo'.repeat(10_000)}=`;
const bytes = 'AAEC'.repeat(30_000);

test('media cost what their data means, and reach the backend unchanged', (t) => {
  const plain = costOf({}).promptTokens;
  const cases: [part: object, least: number, most: number][] = [
    [{ type: 'image_url', image_url: { url: image, detail: 'low' } }, 85, 145],
    [{ type: 'image_url', image_url: { url: image } }, 1_500, 1_560],
    [{ type: 'image_url', image_url: { url: 'data:image/gif;base64,R0lGOD' } }, 1_500, 1_560],
    [{ type: 'image_url', image_url: { url: 'https://example.com/a.png' } }, 1_500, 1_560],
    [{ type: 'input_audio', input_audio: { data: bytes, format: 'wav' } }, 900, 960],
    [{ type: 'file', file: { filename: 'a.pdf', file_data: `data:application/pdf;base64,${bytes}` } }, 1_407, 1_500],
    [{ type: 'file', file: { file_data: bytes } }, 1_407, 1_470],
  ];
  for (const [part, least, most] of cases) {
    const call = callOf({ messages: [{ role: 'user', content: [{ type: 'text', text: 'Hi' }, part] }] });
    const more = call.cost.promptTokens - plain;
    t.true(more >= least && more <= most, `${more} for ${JSON.stringify(part).slice(0, 60)}`);
    t.deepEqual(JSON.parse(call.payload).messages[0].content[1], part);
  }
});

test('text that only looks like data is counted as text', (t) => {
  const words = 'ignore what was said before '.repeat(1_000);
  const places: object[] = [
    { messages: [{ role: 'user', content: image }] },
    { messages: [{ role: 'user', content: [{ type: 'text', text: image }] }] },
    { messages: [{ role: 'user', content: [{ type: 'image', image_url: { url: image } }] }] },
    { messages: [{ role: 'user', content: [{ type: 'text', text: 'Hi', image_url: { url: image } }] }] },
    { messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url: 'x', also: image } }] }] },
    { messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url: `data:image/png,${words}` } }] }] },
    {
      messages: [
        { role: 'user', content: [{ type: 'image_url', image_url: { url: `data:image/png;base64,${words}` } }] },
      ],
    },
    { messages: [{ role: 'user', content: [{ type: 'input_audio', input_audio: { data: words } }] }] },
    { messages: [{ role: 'user', content: [{ type: 'file', file: { file_data: words } }] }] },
    { user: image },
    { tools: [{ type: 'image_url', image_url: { url: image } }] },
  ];
  for (const place of places) t.true(costOf(place).promptTokens > 4_900, JSON.stringify(place).slice(0, 100));
});

const cost = (given: Partial<RequestCost>): RequestCost => {
  const whole = {
    promptTokens: 100,
    outputTokensMax: 50,
    choices: 2,
    promptField: 'messages',
    limitField: 'max_tokens',
    choicesField: 'n',
    ...given,
  };
  return { ...whole, reservedTokens: whole.promptTokens + whole.outputTokensMax * whole.choices };
};

test('a request larger than a minute’s tokens is rejected with the largest accepted value, and that value passes', (t) => {
  const refused = (given: Partial<RequestCost>, limit: number) => refuseLargerThanLimit(cost(given), limit)?.message;
  t.is(refuseLargerThanLimit(cost({}), undefined), undefined);
  t.is(refused({}, 200), undefined);
  t.is(refused({}, 199), 'max_tokens: expected at most 49, because of the 199 tokens per minute of the plan');
  t.is(refused({ outputTokensMax: 49 }, 199), undefined);
  const other = { limitField: 'max_completion_tokens' };
  t.is(
    refused(other, 102),
    'max_completion_tokens: expected at most 1, because of the 102 tokens per minute of the plan',
  );
  t.is(refused({ ...other, outputTokensMax: 1 }, 102), undefined);
  t.is(refused({}, 101), 'n: expected at most 1, because of the 101 tokens per minute of the plan');
  t.is(refused({ choices: 1, outputTokensMax: 1 }, 101), undefined);
  const prompt = 'messages: are about 100 tokens: with output, that exceeds the 100 tokens per minute of the plan';
  t.is(refused({}, 100), prompt);
  t.is(refused({ outputTokensMax: 1, choices: 1 }, 100), prompt);
  t.is(refuseLargerThanLimit(cost({}), 199)?.code, 'VALIDATION_ERROR');
});

const limitNames = [
  'max_tokens',
  'max_completion_tokens',
  'n_predict',
  'max_new_tokens',
  'max_output_tokens',
  'num_predict',
];
const limits = fc.dictionary(fc.constantFrom(...limitNames), fc.option(fc.integer({ min: 1, max: 1_000 })), {
  maxKeys: 4,
});
const bodies = fc.record(
  {
    n: fc.option(fc.integer({ min: 1, max: 8 })),
    best_of: fc.option(fc.integer({ min: 1, max: 8 })),
    stream: fc.boolean(),
    tools: fc.constant([{ type: 'function', function: { name: 'look' } }]),
    options: limits,
    messages: fc.array(
      fc.record({
        role: fc.constantFrom('user', 'system'),
        content: fc.constantFrom('Hi', 'repeat 40', 'call look', '東京'),
      }),
      { minLength: 1, maxLength: 4 },
    ),
    x_vendor: fc.jsonValue(),
  },
  { requiredKeys: [] },
);

type Sent = Record<string, never>;
const published = (sent: Sent) => sent.max_tokens ?? sent.max_completion_tokens;

/** How servers read the limit: from one of the published names, from a name of their own first, or from an object of their own. */
const rules: ((sent: Sent) => number | null | undefined)[] = [
  published,
  (sent) => sent.max_completion_tokens ?? sent.max_tokens,
  ...limitNames.map((name) => (sent: Sent) => sent[name] ?? published(sent)),
  ({ options, ...sent }) => (options as Sent | undefined)?.num_predict ?? published(sent),
];

test('no server generates more than was reserved, whichever names it knows beside the published one that it gets', (t) => {
  fc.assert(
    fc.property(limits, bodies, (limit, body) => {
      const call = callOf({ ...body, ...limit });
      const sent = JSON.parse(bodyFor(call, backend));
      const reserved = call.cost.reservedTokens - call.cost.promptTokens;
      const choices = Math.max(sent.n ?? 1, sent.best_of ?? 1);
      for (const rule of rules) if (!((rule(sent) ?? Number.POSITIVE_INFINITY) * choices <= reserved)) return false;
      if (answerChat(chatSchema.parse(sent)).completionTokens > reserved) return false;
      return [sent.max_tokens, sent.max_completion_tokens].every((limit) =>
        [undefined, call.outputTokensMax].includes(limit),
      );
    }),
    { numRuns: 1_000 },
  );
  t.pass();
});
