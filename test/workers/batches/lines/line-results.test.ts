import test from 'ava';
import { ApiError, validationError } from '../../../../shared/errors.ts';
import {
  answeredLine,
  failedLine,
  refusedLine,
  unfinished,
  usageOf,
} from '../../../../workers/batches/lines/line-results.ts';

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
