import test from 'ava';
import fc from 'fast-check';
import { errorCodes } from '../../../shared/errors.ts';
import { decodeReply, encodeReply, type Reply } from '../../../shared/jobs/replies.ts';

const usage = { promptTokens: 3, completionTokens: 4, cachedTokens: 0, estimated: false };
const envelope = { request: 'req_1', run: 2, sequence: 5 };
const texts = fc.string({ unit: 'binary' });

const contents = fc.oneof(
  fc.record({ kind: fc.constant('started' as const), data: fc.record({ control: texts }) }),
  fc.record({ kind: fc.constant('chunk' as const), data: texts, tokens: fc.nat() }),
  fc.record({
    kind: fc.constant('end' as const),
    data: fc.record(
      {
        body: texts,
        usage: fc.record({
          promptTokens: fc.nat(),
          completionTokens: fc.nat(),
          cachedTokens: fc.nat(),
          estimated: fc.boolean(),
        }),
      },
      { requiredKeys: ['usage'] },
    ),
  }),
  fc.record({
    kind: fc.constant('error' as const),
    data: fc.record(
      {
        code: fc.constantFrom(...(Object.keys(errorCodes) as (keyof typeof errorCodes)[])),
        message: texts,
        fields: fc.constantFrom({}, { tier: 'guest', attempted: ['a', 'b'] }, { retry_after_ms: 5 }),
        headers: fc.constantFrom({}, { 'x-should-retry': 'false' }),
        retryAfterMs: fc.nat(),
      },
      { requiredKeys: ['code', 'message', 'fields', 'headers'] },
    ),
  }),
);

const replies = fc
  .tuple(fc.record({ request: texts, run: fc.integer({ min: 1 }), sequence: fc.nat() }), contents)
  .map(([head, content]): Reply => ({ ...head, ...content }));

/** The fields of a stream entry as a reader receives them. */
function fieldsOf(reply: Reply): Record<string, string> {
  const list = encodeReply(reply);
  const fields: Record<string, string> = {};
  for (let index = 0; index < list.length; index += 2) fields[list[index] ?? ''] = list[index + 1] ?? '';
  return fields;
}

test('every reply of a worker is decoded as it was encoded', (t) => {
  fc.assert(
    fc.property(replies, (reply) => {
      t.deepEqual(decodeReply(fieldsOf(reply)), reply);
    }),
  );
});

test('text is passed on unchanged and never parsed as JSON', (t) => {
  for (const data of ['', '{"a":1}', 'data: {"choices":[]}\n\n', 'null', '東京 👩‍👩‍👧‍👦 \u0000']) {
    const fields = fieldsOf({ ...envelope, kind: 'chunk', data, tokens: 3 });
    t.is(fields.data, data);
    t.deepEqual(decodeReply(fields), { ...envelope, kind: 'chunk', data, tokens: 3 });
  }
});

test('any other stream entry is decoded as undefined', (t) => {
  const end = fieldsOf({ ...envelope, kind: 'end', data: { usage } });
  const chunk = fieldsOf({ ...envelope, kind: 'chunk', data: 'text', tokens: 1 });
  t.not(decodeReply(end), undefined);
  t.not(decodeReply(chunk), undefined);
  const garbage: Record<string, string>[] = [
    {},
    { opened: '1' },
    { ...end, kind: 'ending' },
    { ...end, data: '{' },
    { ...end, data: 'null' },
    { ...end, data: '{"usage":{"promptTokens":-1,"completionTokens":0,"estimated":false}}' },
    { ...end, data: '{"usage":{"promptTokens":1.5,"completionTokens":0,"estimated":false}}' },
    { ...end, kind: 'error', data: '{"code":"TEAPOT","message":"","fields":{},"headers":{}}' },
    { ...chunk, run: '0' },
    { ...chunk, run: '1.5' },
    { ...chunk, run: '' },
    { ...chunk, sequence: '-1' },
    { ...chunk, sequence: '' },
    { ...chunk, sequence: 'x' },
    { kind: 'chunk', data: 'text', run: '1', sequence: '0' },
    { request: 'r', run: '1', sequence: '0', kind: 'chunk' },
    { request: 'r', run: '1', sequence: '0', kind: 'end' },
  ];
  for (const fields of garbage) t.is(decodeReply(fields), undefined, JSON.stringify(fields));
  fc.assert(
    fc.property(fc.dictionary(texts, texts), (fields) => {
      t.is(decodeReply(fields), undefined);
    }),
  );
});
