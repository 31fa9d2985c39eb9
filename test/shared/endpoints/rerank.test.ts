import test from 'ava';
import { BackendError } from '../../../shared/endpoints/answers/backend-error.ts';
import { readCall } from '../../../shared/endpoints/definition/read-call.ts';
import { createListedFields } from '../../../shared/endpoints/fields/listed-fields.ts';
import { rerank } from '../../../shared/endpoints/rerank.ts';
import { ApiError } from '../../../shared/errors.ts';
import { streamOptions } from '../../support/stream-options.ts';

const models = { m: { tier: 'guest', pool: 'default', endpoints: ['rerank'], outputTokensMax: undefined } };
const rule = createListedFields({ models: { m: {} }, mediaHosts: [] });

function callOf(fields: object) {
  const value = { model: 'm', query: 'Where is Bonn?', documents: ['Bonn is on the Rhine.', 'Cats sleep.'], ...fields };
  return readCall(rerank, { value, text: JSON.stringify(value) }, { models, aliases: {}, rule });
}

test('a request needs no output limit, and passes with all its fields except the model', (t) => {
  const call = callOf({ top_n: 1, return_documents: false, max_tokens_per_doc: 100 });
  t.like(call, { endpoint: '/v1/rerank', stream: false, assembled: false, outputTokensMax: 0, choices: 1 });
  t.deepEqual(Object.keys(JSON.parse(call.payload)).sort(), [
    'documents',
    'max_tokens_per_doc',
    'query',
    'return_documents',
    'top_n',
  ]);
});

test('invalid fields are named', (t) => {
  for (const [fields, path] of [
    [{ query: undefined }, 'query'],
    [{ query: 5 }, 'query'],
    [{ documents: [] }, 'documents'],
    [{ documents: 'one' }, 'documents'],
    [{ documents: ['a', 5] }, 'documents[1]'],
    [{ documents: Array.from({ length: 10_001 }, () => 'a') }, 'documents'],
    [{ top_n: -1 }, 'top_n'],
    [{ return_documents: 'yes' }, 'return_documents'],
    [{ priority: 1 }, 'priority'],
    [
      { query: { content: [{ type: 'image_url', image_url: { url: 'http://a.b' } }] } },
      'query.content[0].image_url.url',
    ],
  ] as const) {
    const refused = t.throws(() => callOf(fields), { instanceOf: ApiError });
    t.deepEqual(
      refused?.issues.map((issue) => issue.path),
      [path],
      JSON.stringify(fields).slice(0, 100),
    );
  }
});

test('the query counts once for each document', (t) => {
  const query = 'a long question '.repeat(50);
  const one = callOf({ query, documents: ['a'] }).cost;
  const ten = callOf({ query, documents: Array.from({ length: 10 }, () => 'a') }).cost;
  t.true(
    ten.reservedTokens > 9 * one.reservedTokens && ten.reservedTokens < 11 * one.reservedTokens,
    `${ten.reservedTokens} of ${one.reservedTokens}`,
  );
  t.is(ten.promptTokens, ten.reservedTokens);
  const { texts, tokens } = rerank.request.promptOf({ query, documents: [{ text: 'a' }, 'b'] });
  t.deepEqual(texts, [query, 'a', 'b']);
  t.true(tokens > 100);
});

test('the text of a document counts in whatever fields it is', (t) => {
  const { promptOf } = rerank.request;
  const document = { title: 'a', snippet: 'b' };
  t.deepEqual(promptOf({ query: 'q', documents: [document] }).texts, ['q', JSON.stringify(document)]);
  t.true(promptOf({ query: document, documents: ['a', 'b', 'c'] }).tokens > 2);
  const image = { content: [{ type: 'image_url', image_url: { url: 'data:no' } }] };
  t.deepEqual(promptOf({ query: 'q', documents: [image] }).texts, ['q']);
});

const results = [{ index: 0, relevance_score: 0.25 }];
const { parse, present } = rerank.answer;

test('usage is read in each of its places', (t) => {
  const usageOf = (fields: object) => parse(JSON.stringify({ results, ...fields })).usage?.promptTokens;
  t.is(usageOf({ usage: { total_tokens: 7 } }), 7);
  t.is(usageOf({ meta: { tokens: { input_tokens: 8 } } }), 8);
  for (const fields of [
    {},
    { usage: null },
    { usage: { total_tokens: -1 } },
    { meta: { billed_units: { search_units: 1 } } },
  ]) {
    t.is(usageOf(fields), undefined, JSON.stringify(fields));
  }
});

test('an answer passes as it came, except the name of the model and what is missing', (t) => {
  const text =
    '{ "id": "r", "model": "theirs", "usage": {"total_tokens": 7}, "results": [{"index":0,"relevance_score":1.0}] }';
  const options = streamOptions({ model: 'm' });
  const tokens = { promptTokens: 7, completionTokens: 0 };
  t.is(present(parse(text), tokens, options), text.replace('"model": "theirs"', '"model":"m"'));
  t.is(present(parse(text), tokens, streamOptions({ model: 'theirs' })), text);
  t.deepEqual(JSON.parse(present(parse(JSON.stringify({ results })), tokens, options)), {
    ...{ id: 'rerank-req_1', model: 'm', results },
    usage: { total_tokens: 7 },
  });
});

/** Answers of other servers; the results that the client gets. */
const dialects: Record<string, [unknown, object[]]> = {
  'a list, as of TEI': [
    [
      { index: 1, score: 0.75, text: 'Cats sleep.' },
      { index: 0, score: 0 },
    ],
    [
      { index: 1, relevance_score: 0.75, document: { text: 'Cats sleep.' } },
      { index: 0, relevance_score: 0 },
    ],
  ],
  'a list with the usual names': [[{ index: 0, relevance_score: 0.25 }], results],
  'results as data, as of Voyage': [{ object: 'list', data: results }, results],
  'results with the names of TEI': [{ results: [{ index: 0, score: 0.25 }] }, results],
  'null for results beside data': [{ results: null, data: results }, results],
};
for (const [title, [given, expected]] of Object.entries(dialects)) {
  test(`accepted, and presented as the usual results: ${title}`, (t) => {
    const answer = JSON.parse(
      present(parse(JSON.stringify(given)), { promptTokens: 7, completionTokens: 0 }, streamOptions({ model: 'm' })),
    );
    t.like(answer, { id: 'rerank-req_1', model: 'm', usage: { total_tokens: 7 } });
    t.deepEqual(answer.results, expected);
    t.false('data' in answer);
  });
}

test('anything else is no answer', (t) => {
  for (const text of ['', '[]', '{}', '{"results":1}', '{"results":[1]}', '[5]', '{"data":{}}']) {
    t.is(t.throws(() => parse(text), { instanceOf: BackendError })?.fault, 'unreadable', text);
  }
  for (const text of ['{"results":[],"error":{"message":"no"}}', '[{"error":{"message":"no"}}]']) {
    t.is(t.throws(() => parse(text), { instanceOf: BackendError })?.fault, 'said', text);
  }
});
