import test from 'ava';
import { BackendError } from '../../../shared/endpoints/answers/backend-error.ts';
import { embeddings } from '../../../shared/endpoints/embeddings.ts';
import { backendAnswer } from '../../support/endpoints/backend-answer.ts';
import { callOf, faultsOf, faultyFields } from '../../support/endpoints/endpoint-call.ts';

const { answer, request } = embeddings;
const input = 'Hi';
const context = { model: 'm', requestId: 'req_1', createdAt: 1_700_000_000 };

test('every published field is accepted in each of its types', (t) => {
  const published: Record<string, readonly unknown[]> = {
    input: ['Hi', '', ['a', 'b'], [1, 2], [[1], [2, 3]], Array(2_048).fill('a')],
    dimensions: [1, 3_072, null],
    encoding_format: ['float', 'base64', null],
    user: ['x', null],
  };
  for (const [field, values] of Object.entries(published)) {
    for (const value of values) t.deepEqual(faultsOf(embeddings, { input, [field]: value }), [], field);
  }
  const schema = request.schema as unknown as { shape: object };
  t.deepEqual(Object.keys(schema.shape).sort(), [...Object.keys(published), 'model'].sort());
});

test('a wrong type is refused, and named by its path', (t) => {
  const wrong: readonly object[] = [
    ...[5, null, {}, [], [1, 'a'], ['a', 1], [[1], 'a'], [[]], [-1], [1.5], Array(2_049).fill('a')].map((given) => ({
      input: given,
    })),
    ...[0, 1.5, '8'].map((dimensions) => ({ dimensions })),
    { encoding_format: 'int8' },
    { user: 5 },
    { not_published: 1 },
    { stream: true },
    { messages: [] },
  ];
  for (const fields of wrong)
    t.deepEqual(
      faultyFields(embeddings, { input, ...fields }),
      [Object.keys(fields)[0]],
      JSON.stringify(fields).slice(0, 80),
    );
  t.deepEqual(faultyFields(embeddings, {}), ['input']);
  t.deepEqual(faultyFields(embeddings, { input, model: undefined }), ['model']);
});

test('a prompt may have a million token ids', (t) => {
  const ids = Array.from({ length: 1_000_000 }, (_, index) => index % 50_000);
  t.like(callOf(embeddings, { input: ids }).cost, { outputTokensMax: 0 });
  t.true(callOf(embeddings, { input: ids }).cost.reservedTokens >= 1_000_000);
});

test('only the prompt is reserved, by its token ids or its length', (t) => {
  const call = callOf(embeddings, { input: ['a', 'b'], dimensions: 8 });
  t.like(call, { endpoint: '/v1/embeddings', stream: false, choices: 1, outputTokensMax: 0 });
  t.like(call.cost, { reservedTokens: call.cost.promptTokens, promptField: 'input', limitField: 'input' });
  t.deepEqual(JSON.parse(call.payload), { input: ['a', 'b'], dimensions: 8 });
  const tokensOf = (fields: object) => callOf(embeddings, fields).cost.reservedTokens;
  t.is(tokensOf({ input: Array(3_000).fill(9) }) - tokensOf({ input: Array(1_000).fill(9) }), 2_000);
  t.true(tokensOf({ input: 'word '.repeat(400) }) > 400);
  for (const given of [undefined, null, 5, {}, [null], [[], 'a']])
    t.true(request.estimatePrompt({ input: given }, JSON.stringify({ input: given })) > 0);
  t.like(request.promptOf({ input: ['a', 'b'] }), { texts: ['a', 'b'], tokens: 0 });
  t.like(request.promptOf({ input: [[1], [2, 3]] }), { texts: [], tokens: 3 });
});

const textOf = (value: unknown) => (typeof value === 'string' ? value : JSON.stringify(value));
const presented = (given: unknown, promptTokens: number, model = 'm') =>
  answer.present(answer.parse(textOf(given)), { promptTokens, completionTokens: 0 }, { ...context, model });

test('the vectors of either encoding pass byte for byte, also if the model has another name', (t) => {
  for (const encoding_format of ['float', 'base64'] as const) {
    const { whole, promptTokens } = backendAnswer('/v1/embeddings', {
      model: 'm',
      input: ['Hi', '東京'],
      encoding_format,
    });
    t.is(presented(whole, promptTokens), whole);
    t.is(
      presented(whole, promptTokens, 'a "quoted" \\ name'),
      whole.replace('"model":"m"', '"model":"a \\"quoted\\" \\\\ name"'),
    );
    t.deepEqual(answer.parse(whole).usage, { promptTokens, completionTokens: 0, cachedTokens: 0 });
  }
  const spaced =
    '{ "object": "list",\n "model" : "m" , "data": [{"object":"embedding","index":0,"embedding":[1e-7, 0.10]}],\n "usage":{"prompt_tokens":1,"total_tokens":1} }';
  t.is(presented(spaced, 1), spaced);
  t.is(presented(spaced, 1, 'alias'), spaced.replace('"model" : "m"', '"model":"alias"'));
});

test('an answer that repeats the name of its model elsewhere is renamed in one place only', (t) => {
  const given = {
    object: 'list',
    model: 'm',
    data: [],
    usage: { prompt_tokens: 1, total_tokens: 1 },
    vendor: { model: 'm' },
  };
  t.deepEqual(JSON.parse(presented(given, 1, 'alias')), { ...given, model: 'alias' });
});

test('properties that a server leaves out are added, and a usage that cannot be read is replaced', (t) => {
  const usage = { prompt_tokens: 7, total_tokens: 7 };
  const data = [{ embedding: [0.5] }, { embedding: 'AAAA', index: 1 }];
  const complete = [
    { object: 'embedding', index: 0, embedding: [0.5] },
    { object: 'embedding', index: 1, embedding: 'AAAA' },
  ];
  t.deepEqual(JSON.parse(presented({ data }, 7)), { object: 'list', model: 'm', data: complete, usage });
  for (const wrong of [undefined, null, 'x', {}, { prompt_tokens: -1, total_tokens: 7 }, { prompt_tokens: 7 }]) {
    const given = { object: 'list', model: 'm', data: complete, usage: wrong };
    t.deepEqual(JSON.parse(presented(given, 7)), { ...given, usage }, JSON.stringify(wrong));
  }
});

const unreadable: Record<string, unknown> = {
  'no JSON': '{"data"',
  'no data': { object: 'list' },
  'data that is no list': { data: {} },
  'an item that is a number': { data: [5] },
  'an error': { error: { message: 'Dead.' } },
  'an error beside its data': { data: [], error: { message: 'Dead.' } },
  'a model that is no text': { data: [], model: 5 },
};
for (const [title, given] of Object.entries(unreadable)) {
  test(`not taken for embeddings: ${title}`, (t) => {
    const error = t.throws(() => answer.parse(textOf(given)), { instanceOf: BackendError });
    t.is(error.fault, /error|failed/.test(title) ? 'said' : 'unreadable');
  });
}

test('an answer has no text of the model and no streams, and is never cut', (t) => {
  const { whole } = backendAnswer('/v1/embeddings', { model: 'm', input });
  const parsed = answer.parse(whole);
  t.is(answer.writtenIn(parsed), '');
  t.is(answer.cut(parsed, 0.1), parsed);
  t.is(answer.stream, undefined);
});
