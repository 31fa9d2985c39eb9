import test from 'ava';
import { backendAnswer } from '../../../support/endpoints/backend-answer.ts';
import { assembled, type Json, parsed, streamed } from '../../../support/endpoints/dialect.ts';

/** Requests of each endpoint with streams. */
const requests: Record<string, Json> = {
  '/v1/chat/completions': {
    messages: [{ role: 'user', content: 'think aloud' }],
    stream_options: { include_usage: true },
  },
  '/v1/completions': { prompt: 'Hi', stream_options: { include_usage: true } },
  '/v1/messages': { max_tokens: 1_000, messages: [{ role: 'user', content: 'think aloud' }] },
  '/v1/responses': { input: 'think aloud' },
};

/** Of every endpoint. */
const skipped: Record<string, string> = {
  'an event without data': '',
  'data of white space': ' \n ',
  null: 'null',
  'an empty object': '{}',
  'an object without content': '{"time":1754000000,"model":null,"id":"ping"}',
  'an object whose content is null': '{"choices":null,"usage":null,"error":null,"type":null}',
};
/** Of streams of chunks: there, events of other names have other types. */
const skippedOfChunks: Record<string, string> = {
  'a ping': '{"type": "ping"}',
  'an event of a server of its own': '{"type":"progress","progress":{"total":10,"processed":5}}',
  'an object with a list of another name': '{"object":"list","data":[]}',
};

for (const [path, request] of Object.entries(requests)) {
  const { events } = backendAnswer(path, { model: 'm', stream: true, ...request });
  const isOfChunks = path.endsWith('completions');
  const plain = streamed(path, events);
  const whole = assembled(path, events);

  for (const [title, data] of Object.entries({ ...skipped, ...(isOfChunks && skippedOfChunks) })) {
    test(`${path}: ${title} is skipped, wherever it comes`, (t) => {
      t.true(plain.complete);
      const padded = [data, ...events.flatMap((event) => [event, data])];
      t.deepEqual(streamed(path, padded), plain);
      t.deepEqual(assembled(path, padded), whole);
      t.is(streamed(path, [data, data]).failed, undefined);
      t.false(streamed(path, [data, data]).complete);
    });
  }

  test(`${path}: what is broken is not skipped`, (t) => {
    for (const data of ['{"choices":', 'hello', '[]', '5', '{"error":{"message":"no"}}', '{"error":"no"}']) {
      t.truthy(streamed(path, [...events.slice(0, 2), data]).failed, data);
      t.truthy(assembled(path, [...events.slice(0, 2), data]).failed, data);
    }
  });
}

test('/v1/messages: a ping and events of unknown types pass', (t) => {
  const { events } = backendAnswer('/v1/messages', { model: 'm', stream: true, ...requests['/v1/messages'] });
  const others = [{ type: 'ping' }, { type: 'a_new_event', delta: 5, usage: null }];
  const sent = streamed('/v1/messages', [events[0], ...others, ...events.slice(1)]).events;
  t.deepEqual(sent.slice(1, 3), others);
  t.deepEqual(assembled('/v1/messages', [events[0], ...others, ...events.slice(1)]), assembled('/v1/messages', events));
});

const nulls = {
  id: null,
  object: null,
  created: null,
  model: null,
  usage: null,
  error: null,
  system_fingerprint: null,
};
const chunkOf = (choice: Json) => ({
  ...nulls,
  choices: [{ index: null, logprobs: null, finish_reason: null, ...choice }],
});
const head = { id: 'chatcmpl-req_1', object: 'chat.completion.chunk', created: 1_700_000_000, model: 'm' };

test('/v1/chat/completions: null means absent in every value of a chunk', (t) => {
  const deltas = [
    null,
    { role: null, content: null, tool_calls: null, function_call: null, refusal: null, reasoning_content: null },
    { content: 'Hi' },
  ];
  const events = [
    ...deltas.map((delta) => chunkOf({ delta })),
    chunkOf({ delta: null, finish_reason: 'stop' }),
    '[DONE]',
  ];
  const { events: sent, complete, written } = streamed('/v1/chat/completions', events);
  t.true(complete);
  t.is(written, 'Hi');
  for (const event of sent) t.like(event, head);
  const choices = sent.flatMap((event) => event.choices as Json[]);
  t.deepEqual(
    choices.map(({ index, delta, finish_reason: reason }) => [index, (delta as Json).content ?? null, reason]),
    [
      [0, null, null],
      [0, null, null],
      [0, 'Hi', null],
      [0, null, 'stop'],
    ],
  );
  t.like(assembled('/v1/chat/completions', events).answer, {
    ...{ id: 'chatcmpl-req_1', object: 'chat.completion', created: 1_700_000_000, model: 'm' },
    choices: [{ index: 0, message: { role: 'assistant', content: 'Hi' }, finish_reason: 'stop' }],
  });
  const message = { role: null, content: 'Hi', refusal: null };
  t.like(parsed('/v1/chat/completions', chunkOf({ message, text: null, finish_reason: 'stop' })).answer, {
    ...{ id: 'chatcmpl-req_1', object: 'chat.completion', created: 1_700_000_000, model: 'm' },
    choices: [{ index: 0, message: { role: 'assistant', content: 'Hi' }, finish_reason: 'stop' }],
  });
  t.like(parsed('/v1/chat/completions', chunkOf({ message: null })).answer, {
    choices: [{ message: { role: 'assistant', content: null } }],
  });
});

test('/v1/completions: null means absent in every value of a chunk', (t) => {
  const events = [
    chunkOf({ text: null }),
    chunkOf({ text: 'Hi' }),
    chunkOf({ text: null, finish_reason: 'stop' }),
    '[DONE]',
  ];
  const { events: sent, complete } = streamed('/v1/completions', events);
  t.true(complete);
  const choices = sent.flatMap((event) => event.choices as Json[]);
  t.deepEqual(
    choices.map(({ index, text, finish_reason: reason }) => [index, text, reason]),
    [
      [0, '', null],
      [0, 'Hi', null],
      [0, '', 'stop'],
    ],
  );
  const expected = { id: 'cmpl-req_1', model: 'm', choices: [{ index: 0, text: 'Hi', finish_reason: 'stop' }] };
  t.like(assembled('/v1/completions', events).answer, expected);
  t.like(parsed('/v1/completions', chunkOf({ text: 'Hi', finish_reason: 'stop' })).answer, expected);
  t.like(assembled('/v1/completions', [chunkOf({ text: null, finish_reason: 'stop' })]).answer, {
    choices: [{ text: '' }],
  });
});

test('an id that only the first chunk has is that of every chunk', (t) => {
  const [first, ...rest] = ['a', 'b', 'c'].map((content) => chunkOf({ index: 0, delta: { content } }));
  const { events } = streamed('/v1/chat/completions', [{ ...first, id: 'x' }, ...rest, '[DONE]']);
  t.deepEqual(
    events.map(({ id }) => id),
    Array(5).fill('x'),
  );
});

test('/v1/messages: null means absent in every optional value', (t) => {
  const message = { id: null, type: null, role: null, model: null, content: null, stop_reason: null, usage: null };
  const events = [
    { type: 'message_start', message },
    { type: 'content_block_start', index: 0, content_block: { type: 'text', text: null, citations: null } },
    { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'Hi' } },
    { type: 'content_block_stop', index: 0 },
    { type: 'message_delta', delta: { stop_reason: 'end_turn', stop_sequence: null }, usage: null },
    { type: 'message_stop' },
  ];
  const expected = { id: 'msg_req_1', type: 'message', role: 'assistant', model: 'm' };
  const { events: sent, complete } = streamed('/v1/messages', events);
  t.true(complete);
  t.like(sent[0]?.message, { ...expected, content: [], usage: { input_tokens: 0 } });
  const whole = { ...expected, stop_reason: 'end_turn', usage: { input_tokens: 30, output_tokens: 50 } };
  t.like(assembled('/v1/messages', events).answer, { ...whole, content: [{ type: 'text', text: 'Hi' }] });
  const given = { ...message, type: 'message', content: [], stop_reason: 'end_turn', stop_sequence: null };
  t.like(parsed('/v1/messages', given).answer, { ...whole, content: [] });
});

test('/v1/responses: null means absent in every optional value', (t) => {
  const response = {
    ...{ id: null, object: null, created_at: null, model: null, status: null, output: null, usage: null, error: null },
    ...{ tools: null, tool_choice: null, parallel_tool_calls: null, incomplete_details: null, metadata: null },
  };
  const item = { type: 'message', id: 'msg_1', role: null, status: null, content: null };
  const place = { item_id: 'msg_1', output_index: 0, content_index: 0, sequence_number: null };
  const events = [
    { type: 'response.created', sequence_number: null, response },
    { type: 'response.output_item.added', output_index: 0, item },
    { type: 'response.output_text.delta', ...place, delta: 'Hi', logprobs: null },
    { type: 'response.completed', response },
  ];
  const expected = { id: 'resp_req_1', object: 'response', model: 'm', tools: [], tool_choice: 'auto' };
  const { events: sent, complete } = streamed('/v1/responses', events);
  t.true(complete);
  t.like(sent[0]?.response, { ...expected, status: 'in_progress', output: [] });
  t.like(sent[1]?.item, { role: 'assistant', status: 'in_progress', content: [] });
  t.like(sent[2], { delta: 'Hi', logprobs: [] });
  t.like(sent.at(-1)?.response, { ...expected, status: 'completed', usage: { input_tokens: 30 } });
  t.like(assembled('/v1/responses', events).answer, {
    ...expected,
    output: [{ type: 'message', role: 'assistant', content: [{ type: 'output_text', text: 'Hi' }] }],
  });
  t.like(parsed('/v1/responses', { ...response, output: [item] }).answer, {
    ...{ ...expected, status: 'completed' },
    output: [{ role: 'assistant', status: 'completed', content: [] }],
  });
});

test('embeddings and rerank: null means absent in every optional value', (t) => {
  const items = {
    object: null,
    model: null,
    usage: null,
    error: null,
    data: [{ object: null, index: null, embedding: [1] }],
  };
  t.deepEqual(parsed('/v1/embeddings', items).answer, {
    ...{ object: 'list', model: 'm', usage: { prompt_tokens: 30, total_tokens: 30 }, error: null },
    data: [{ object: 'embedding', index: 0, embedding: [1] }],
  });
  const results = [{ index: 0, relevance_score: 0.5, document: null }];
  t.deepEqual(parsed('/v1/rerank', { id: null, model: null, usage: null, meta: null, results }).answer, {
    ...{ id: 'rerank-req_1', model: 'm', usage: { total_tokens: 30 }, meta: null, results },
  });
});
