import test from 'ava';
import fc from 'fast-check';
import { resultIdOf } from '../../../../shared/batches/batch.ts';
import { ApiError, validationError } from '../../../../shared/errors.ts';
import {
  answeredLine,
  failedLine,
  lineBytesOf,
  presentLine,
  refusedLine,
  unfinished,
  usageOf,
} from '../../../../workers/batches/lines/line-results.ts';
import { resultOf } from '../../../shared/store/batch-records.ts';

const line = { batch: 'batch_1', line: 7, customId: 'mine', requestId: 'req_1' };
const usage = { promptTokens: 10, completionTokens: 5, cachedTokens: 2, estimated: false };
const nothing = { promptTokens: 0, completionTokens: 0, cachedTokens: 0, estimated: true };

test('an answer is stored unchanged with its usage, and with no other field of the job', (t) => {
  const job = { ...line, account: 'user:ann', tellTo: 'svc:control:1' };
  t.deepEqual(answeredLine(job, '{ "a": 1 }', { ...usage }), {
    ...line,
    ...usage,
    ...{ failed: false, status: 200, body: '{ "a": 1 }', error: null },
  });
});

test('an answer of 4 MiB is stored, and of a larger one only the usage', (t) => {
  const kept = 'ü'.repeat(2_097_152);
  t.is(answeredLine(line, kept, usage).body, kept);
  t.like(answeredLine(line, `${kept}x`, usage), {
    ...{ ...usage, failed: true, body: null, status: null },
    error: { code: 'PAYLOAD_TOO_LARGE' },
  });
});

test('a refused line has the error of an interactive response, in the form of its base URL, and costs nothing', (t) => {
  const error = validationError([{ path: 'n', message: 'too many' }]);
  const bodies = (['flat', 'nested'] as const).map((errorFormat) => {
    const result = refusedLine({ ...line, errorFormat }, error);
    const { body, ...others } = result;
    t.deepEqual(others, {
      ...{ ...line, ...nothing, failed: true, status: 400 },
      error: { code: 'VALIDATION_ERROR', message: 'n: too many' },
    });
    return JSON.parse(body ?? '');
  });
  t.deepEqual(bodies, [
    { code: 'VALIDATION_ERROR', error: 'n: too many' },
    { error: { code: 'VALIDATION_ERROR', type: 'invalid_request_error', param: 'n', message: 'n: too many' } },
  ]);
});

test('a failed line has its error and no answer, and costs only the usage that is passed', (t) => {
  const error = new ApiError('INTERNAL_ERROR', 'No.');
  t.deepEqual(failedLine(line, error), {
    ...{ ...line, ...nothing, failed: true, status: null, body: null },
    error: { code: 'INTERNAL_ERROR', message: 'No.' },
  });
  const result = failedLine(line, unfinished.cancelled, usage);
  t.is(result.error?.code, 'batch_cancelled');
  t.deepEqual(usageOf(result), usage);
});

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
