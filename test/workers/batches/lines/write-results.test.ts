import { setImmediate as nextTurn } from 'node:timers/promises';
import test from 'ava';
import { Registry } from 'prom-client';
import type { BatchResult } from '../../../../shared/batches/batch.ts';
import { temporarilyUnavailable } from '../../../../shared/errors.ts';
import { createWriteResults } from '../../../../workers/batches/lines/write-results.ts';
import { createWorkerMetrics } from '../../../../workers/metrics.ts';
import { resultOf } from '../../../shared/store/batch-records.ts';
import { recordedLog } from '../../../support/recorded-log.ts';

const never = new AbortController().signal;
const lineNumbers = (count: number) => Array.from({ length: count }, (_, index) => index + 1);

/** A store whose calls the test ends one by one. */
function open() {
  const calls: { lines: number[]; succeed: (change?: Partial<BatchResult>) => void; fail: (error: Error) => void }[] =
    [];
  const insertResults = (results: readonly BatchResult[]) =>
    new Promise<BatchResult[]>((resolve, reject) => {
      calls.push({
        lines: results.map(({ line }) => line),
        succeed: (change = {}) => resolve(results.map((result) => ({ ...result, ...change }))),
        fail: reject,
      });
    });
  const write = createWriteResults({
    store: { insertResults },
    metrics: createWorkerMetrics(new Registry()),
    log: recordedLog().log,
    gatherMs: 0,
    pauseMs: 1,
  });
  async function call(number: number) {
    for (let found = calls[number - 1]; ; found = calls[number - 1]) {
      if (found !== undefined) return found;
      await nextTurn();
    }
  }
  return {
    write: (line: number, signal = never) => write(resultOf('batch_1', line), endpoint, signal),
    writeResult: write,
    call,
    calls,
  };
}

const endpoint = '/v1/chat/completions';

test('a result is written at once, and those that come meanwhile are written together', async (t) => {
  const { write, call, calls } = open();
  const written = lineNumbers(5).map((line) => write(line));
  const first = await call(1);
  t.deepEqual(first.lines, [1]);
  first.succeed();
  const second = await call(2);
  t.deepEqual(second.lines, [2, 3, 4, 5]);
  second.succeed();
  t.deepEqual(
    (await Promise.all(written)).map(({ line }) => line),
    [1, 2, 3, 4, 5],
  );
  t.is(calls.length, 2);
});

test('a call has at most a hundred results, and fewer if they are large', async (t) => {
  const { writeResult, write, call } = open();
  const many = lineNumbers(251).map((line) => write(line));
  const sizes: number[] = [];
  for (const number of [1, 2, 3, 4]) {
    const { lines, succeed } = await call(number);
    sizes.push(lines.length);
    succeed();
  }
  await Promise.all(many);
  t.deepEqual(sizes, [1, 100, 100, 50]);
  const body = 'x'.repeat(4_000_000);
  const large = lineNumbers(6).map((line) => writeResult(resultOf('batch_1', line, { body }), endpoint, never));
  for (const [number, count] of [
    [5, 1],
    [6, 3],
    [7, 2],
  ] as const) {
    const { lines, succeed } = await call(number);
    t.is(lines.length, count);
    succeed();
  }
  await Promise.all(large);
});

test('returns the stored result, which may be of another request', async (t) => {
  const { write, call } = open();
  const written = write(1);
  (await call(1)).succeed({ requestId: 'the first one' });
  t.like(await written, { line: 1, requestId: 'the first one' });
});

test('results wait in order while the store is unavailable, and none is lost', async (t) => {
  const { write, call } = open();
  const written = [write(1), write(2)];
  const unavailable = temporarilyUnavailable(new Error('unavailable'));
  (await call(1)).fail(unavailable);
  const second = await call(2);
  t.deepEqual(second.lines, [1, 2]);
  written.push(write(3));
  second.fail(unavailable);
  const last = await call(3);
  t.deepEqual(last.lines, [1, 2, 3]);
  last.succeed();
  t.is((await Promise.all(written)).length, 3);
});

test('a result that was aborted while the store was unavailable fails with the reason, and is not written later', async (t) => {
  const { write, call, calls } = open();
  const stop = new AbortController();
  const reason = new Error('shutdown');
  const [aborted, other] = [write(1, stop.signal), write(2)];
  const first = await call(1);
  stop.abort(reason);
  first.fail(temporarilyUnavailable(new Error('unavailable')));
  await t.throwsAsync(aborted, { is: reason });
  const second = await call(2);
  t.deepEqual(second.lines, [2]);
  second.succeed();
  await other;
  await t.throwsAsync(write(3, AbortSignal.abort(reason)), { is: reason });
  t.is(calls.length, 2);
});

test('any other failure rejects the results of that call, and the next ones are written', async (t) => {
  const { write, call } = open();
  const failed = write(1);
  const fault = new Error('a fault');
  const first = await call(1);
  const next = write(2);
  first.fail(fault);
  await t.throwsAsync(failed, { is: fault });
  (await call(2)).succeed();
  t.like(await next, { line: 2 });
});
