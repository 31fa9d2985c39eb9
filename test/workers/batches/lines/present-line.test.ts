import test from 'ava';
import fc from 'fast-check';
import { resultIdOf } from '../../../../workers/batches/lines/batch-job.ts';
import { lineBytesOf, presentLine } from '../../../../workers/batches/lines/line-results.ts';
import { resultOf } from '../../../shared/store/batch-records.ts';

test('an answered line has the format that the official client reads', (t) => {
  const result = resultOf('batch_1', 7, { customId: 'mine "1"', requestId: 'req_7-1', body: '{"choices":[]}' });
  t.deepEqual(JSON.parse(presentLine(result)), {
    id: resultIdOf('batch_1', 7),
    custom_id: 'mine "1"',
    response: { status_code: 200, request_id: 'req_7-1', body: { choices: [] } },
    error: null,
  });
});

test('a line without an answer has only its error', (t) => {
  const error = { code: 'batch_expired', message: 'Too late.' };
  const text = presentLine(resultOf('batch_1', 7, { failed: true, status: null, body: null, error }));
  t.like(JSON.parse(text), { response: null, error });
});

test('a body with line breaks becomes one line of the same JSON, including its numbers', (t) => {
  fc.assert(
    fc.property(fc.jsonValue(), fc.constantFrom('\n', '\r\n', '\r', '\n\n\t'), (value, lineBreak) => {
      const pretty = JSON.stringify({ value }, undefined, 2).replaceAll('\n', lineBreak);
      const text = presentLine(resultOf('batch_1', 7, { body: pretty }));
      t.is(text.indexOf('\n'), text.length - 1);
      t.false(text.includes('\r'));
      t.deepEqual(JSON.parse(text).response.body, JSON.parse(pretty));
    }),
  );
  const seed = '12345678901234567890';
  t.true(presentLine(resultOf('batch_1', 7, { body: `{\n"seed": ${seed}}` })).includes(seed));
});

test('any custom id comes back unchanged', (t) => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary', minLength: 1 }), (customId) => {
      const text = presentLine(resultOf('batch_1', 7, { customId }));
      return JSON.parse(text).custom_id === customId && text.indexOf('\n') === text.length - 1;
    }),
  );
  t.is(JSON.parse(presentLine(resultOf('b', 1, { customId: '$&\n' }))).custom_id, '$&\n');
});

test('the bytes of a line are known before it is formatted, and are at most more by its line breaks', (t) => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), fc.option(fc.string({ unit: 'binary' })), (customId, body) => {
      const result = resultOf('batch_1', 7, { customId, body: body?.replaceAll(/[\r\n]/g, '') ?? null });
      t.is(lineBytesOf(result), Buffer.byteLength(presentLine(result)));
    }),
  );
  const broken = resultOf('batch_1', 7, { body: '{\r\n"a":\n\n1}' });
  t.is(lineBytesOf(broken) - 2, Buffer.byteLength(presentLine(broken)));
});
