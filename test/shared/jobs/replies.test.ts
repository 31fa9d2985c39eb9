import test from 'ava';
import fc from 'fast-check';
import { errorCodes } from '../../../shared/errors.ts';
import { decodeEntry, encodeFrame, type Reply } from '../../../shared/jobs/replies.ts';

const texts = fc.string({ unit: 'binary' });
const counts = fc.nat();
const usages = fc.record({
  promptTokens: counts,
  completionTokens: counts,
  cachedTokens: counts,
  estimated: fc.boolean(),
});
const contents = fc.oneof(
  fc.record({ kind: fc.constant('started' as const), data: fc.record({ control: texts, queueMs: counts }) }),
  fc.record({ kind: fc.constant('chunk' as const), data: texts, tokens: counts }),
  fc.record({ kind: fc.constant('piece' as const), data: texts, bytes: counts }),
  fc.record({
    kind: fc.constant('end' as const),
    data: fc.record({ body: texts, usage: usages }, { requiredKeys: ['usage'] }),
  }),
  fc.record({
    kind: fc.constant('error' as const),
    data: fc.record(
      {
        code: fc.constantFrom(...(Object.keys(errorCodes) as (keyof typeof errorCodes)[])), // the keys of this table
        message: texts,
        fields: fc.constantFrom({}, { tier: 'guest', attempted: ['a', 'b'] }, { retry_after_ms: 5 }),
        headers: fc.constantFrom({}, { 'x-should-retry': 'false' }),
        retryAfterMs: counts,
      },
      { requiredKeys: ['code', 'message', 'fields', 'headers'] },
    ),
  }),
  fc.record({ kind: fc.constant('interrupted' as const), data: fc.record({ promptTokens: counts }) }),
);
const ids = fc.stringMatching(/^req_[0-9A-Z]{1,26}$/);
const served = fc.record({ backend: texts, queueWaitMs: counts, firstTokenMs: fc.option(counts) });
const replies = fc
  .tuple(fc.record({ request: ids, run: fc.integer({ min: 1 }), sequence: counts }), contents, fc.option(served))
  .map(([head, content, known]): Reply => ({ ...head, ...content, ...(known && { served: known }) }));

const chunk = (data: string, sequence = 0): Reply => ({
  ...{ request: 'req_1', run: 1, sequence },
  ...{ kind: 'chunk', data, tokens: 1 },
});

test('the replies of a frame are decoded unchanged and in order', (t) => {
  fc.assert(
    fc.property(fc.array(replies), (said) => {
      t.deepEqual(decodeEntry(encodeFrame(said)), said);
    }),
  );
});

test('text that looks like a head is decoded as text', (t) => {
  const said = [chunk('chunk req_2 1 0 1 3\nabc'), chunk('\n', 1), chunk('', 2), chunk('😀 東京', 3)];
  t.deepEqual(decodeEntry(encodeFrame(said)), said);
});

test('a truncated frame yields the replies before the cut and nothing else', (t) => {
  const said = [chunk('one'), chunk('two', 1), chunk('three', 2)];
  const [name = '', text = ''] = encodeFrame(said);
  for (let length = 0; length < text.length; length++) {
    const read = decodeEntry([name, text.slice(0, length)]);
    t.deepEqual(read, said.slice(0, read.length), `${length} characters`);
    t.true(read.length < said.length);
  }
});

test('what is served is with its reply only, and is left out if it cannot be read', (t) => {
  const said: Reply[] = [
    { ...chunk('one'), served: { backend: 'a', queueWaitMs: 1, firstTokenMs: 2 } },
    chunk('two', 1),
  ];
  const [name = '', text = ''] = encodeFrame(said);
  t.deepEqual(decodeEntry([name, text]), said);
  const bare = [chunk('one'), chunk('two', 1)];
  const [, of = ''] = encodeFrame(bare);
  for (const unreadable of [
    '',
    '{',
    '{}',
    '[]',
    '{"backend":"a"}',
    '{"backend":7,"queueWaitMs":1,"firstTokenMs":null}',
  ]) {
    const frame = `served req_1 1 0 0 ${unreadable.length}\n${unreadable}${of}`;
    t.deepEqual(decodeEntry([name, frame]), bare, unreadable);
  }
});

test('an invalid frame yields no reply', (t) => {
  const heads = [
    ...['', ' ', 'chunk', 'chunk req_1 1 0 1', 'chunk req_1 1 0 1 x', 'chunk req_1 1 0 1 -1', 'chunk req_1 1 0 1 1e9'],
    ...[
      'chunk req_1 0 0 1 0',
      'chunk req_1 1.5 0 1 0',
      'chunk req_1 1 -1 1 0',
      'chunk req_1 1 0 x 0',
      'chunk  1 0 1 0',
    ],
    ...[
      'chunk req_1 1 0  0',
      'chunk req_1 1 0 1 0 0',
      'end req_1 1 0 1,2 0',
      'end req_1 1 0 1,2,x,0,0 0',
      'other req_1 1 0 0 0',
    ],
    ...['error req_1 1 0 0 0', 'started req_1 1 0 0 0', `chunk req_1 1${'0'.repeat(20)} 0 1 0`],
  ];
  for (const head of heads) t.deepEqual(decodeEntry(['frame', `${head}\n`]), [], head);
  const parts: [kind: string, data: string][] = [
    ...(
      ['{', 'null', '{}', '{"control":1,"queueMs":0}', '{"control":"c","queueMs":-1}', '{"control":"c"}'] as const
    ).map((data): [string, string] => ['started', data]),
    ['error', '{"code":"TEAPOT","message":"","fields":{},"headers":{}}'],
    ['interrupted', '{"promptTokens":1.5}'],
  ];
  const entry = (kind: string, data: string) => decodeEntry(['frame', `${kind} req_1 1 0 0 ${data.length}\n${data}`]);
  t.is(entry('started', '{"control":"c","queueMs":0}').length, 1);
  for (const [kind, data] of parts) t.deepEqual(entry(kind, data), [], `${kind} ${data}`);
  t.deepEqual(decodeEntry([]), []);
  t.deepEqual(decodeEntry(['frame']), []);
  t.deepEqual(decodeEntry(['request', 'req_1', 'run', '1', 'sequence', '0', 'kind', 'chunk', 'data', 'text']), []);
  t.deepEqual(decodeEntry(['opened', '1']), []);
});
