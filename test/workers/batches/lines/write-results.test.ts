import { setImmediate as nextTurn } from 'node:timers/promises';
import test from 'ava';
import { Registry } from 'prom-client';
import type { BatchResult } from '../../../../shared/batches/batch.ts';
import { temporarilyUnavailable } from '../../../../shared/errors.ts';
import type { ResultRoom, SizedResult } from '../../../../workers/batches/lines/result-room.ts';
import { createWriteResults } from '../../../../workers/batches/lines/write-results.ts';
import { createWorkerMetrics } from '../../../../workers/metrics.ts';
import { resultOf } from '../../../shared/store/batch-records.ts';
import { recordedLog } from '../../../support/recorded-log.ts';
import { endlessRoom } from '../../../support/result-room.ts';

const never = new AbortController().signal;
const lineNumbers = (count: number) => Array.from({ length: count }, (_, index) => index + 1);

/** A store whose calls the test ends one by one. */
function open(room: Pick<ResultRoom, 'take' | 'giveBack'> = endlessRoom) {
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
    room,
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
    write: (line: number, signal = never) => write(resultOf('batch_1', line), owner, signal),
    writeResult: write,
    call,
    calls,
  };
}

const owner = { account: 'user:ann', endpoint: '/v1/chat/completions' };

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
  await nextTurn(); // nothing waits any more
  t.deepEqual(sizes, [1, 100, 100, 50]);
  const body = 'x'.repeat(400_000);
  const large = lineNumbers(6).map((line) => writeResult(resultOf('batch_1', line, { body }), owner, never));
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

/** A room that has no place for these lines, and knows what was counted and given back, by batch. */
function roomWithout(refused: readonly number[]) {
  const counted: [string, number][] = [];
  const returned: [string, number][] = [];
  let seen = 0;
  const room: Pick<ResultRoom, 'take' | 'giveBack'> = {
    async take({ batch }, results) {
      counted.push([batch, results.length]);
      return results.map(() => !refused.includes(++seen));
    },
    async giveBack({ batch }, results: readonly SizedResult[]) {
      returned.push([batch, results.length]);
    },
  };
  return { room, counted, returned };
}

test('a result without room becomes an error that charges nothing, and the others are written', async (t) => {
  const { room } = roomWithout([2]);
  const { write, call } = open(room);
  const written = lineNumbers(3).map((line) => write(line));
  (await call(1)).succeed();
  (await call(2)).succeed();
  const [first, second, third] = await Promise.all(written);
  t.deepEqual([first, third], [resultOf('batch_1', 1), resultOf('batch_1', 3)]);
  t.like(second, {
    ...{ line: 2, customId: 'line 2', requestId: 'req_2-1', failed: true, status: null, body: null },
    ...{ promptTokens: 0, completionTokens: 0, cachedTokens: 0 },
    error: { code: 'account_bytes_limit' },
  });
});

test('results are counted once by batch, also if they are written again, and those that were stored before are given back', async (t) => {
  const { room, counted, returned } = roomWithout([]);
  const { writeResult, call } = open(room);
  const written = [
    writeResult(resultOf('batch_1', 1), owner, never),
    writeResult(resultOf('batch_1', 2), owner, never),
    writeResult(resultOf('batch_2', 1), { ...owner, account: 'user:bob' }, never),
  ];
  (await call(1)).fail(temporarilyUnavailable(new Error('unavailable')));
  (await call(2)).succeed();
  await Promise.all(written);
  t.deepEqual(counted, [
    ['batch_1', 1],
    ['batch_1', 1],
    ['batch_2', 1],
  ]);
  t.deepEqual(returned, []);
  const again = writeResult(resultOf('batch_1', 1), owner, never);
  (await call(3)).succeed({ requestId: 'the first one' });
  await again;
  t.deepEqual(returned, [['batch_1', 1]]);
});

test('a result that was counted and then aborted is given back, and one that was not counted is not', async (t) => {
  const { room, returned } = roomWithout([]);
  const { writeResult, call } = open(room);
  const stop = new AbortController();
  const aborted = [1, 2].map((line) => writeResult(resultOf('batch_1', line), owner, stop.signal));
  const other = writeResult(resultOf('batch_2', 1), owner, never);
  const first = await call(1);
  t.deepEqual(first.lines, [1]);
  stop.abort(new Error('shutdown'));
  first.fail(temporarilyUnavailable(new Error('unavailable')));
  for (const one of aborted) await t.throwsAsync(one, { message: 'shutdown' });
  (await call(2)).succeed();
  await other;
  t.deepEqual(returned, [['batch_1', 1]]);
});

test('while one account cannot be counted, its results wait, and those of others are not counted twice', async (t) => {
  let isAway = true;
  const counted: string[] = [];
  const { writeResult, call } = open({
    ...endlessRoom,
    async take({ account }, results) {
      if (account === 'user:ann' && isAway) throw temporarilyUnavailable(new Error('away'));
      counted.push(account);
      isAway = false;
      return results.map(() => true);
    },
  });
  const all = ['user:eve', 'user:ann', 'user:bob'].map((account, index) =>
    writeResult(resultOf(`batch_${index}`, 1), { ...owner, account }, never),
  );
  for (let number = 1; number <= 2; number++) (await call(number)).succeed();
  await Promise.all(all);
  t.deepEqual(counted.toSorted(), ['user:ann', 'user:bob', 'user:eve']);
});

test('a fault in counting rejects the results of that batch, and those of others are written', async (t) => {
  const fault = new Error('a fault');
  const { writeResult, call } = open({
    ...endlessRoom,
    async take({ batch }, results) {
      if (batch === 'batch_1') throw fault;
      return results.map(() => true);
    },
  });
  const [, second, third] = [0, 1, 2].map((number) => writeResult(resultOf(`batch_${number}`, 1), owner, never));
  (await call(1)).succeed();
  await t.throwsAsync(second ?? Promise.resolve(), { is: fault });
  (await call(2)).succeed();
  t.like(await third, { batch: 'batch_2' });
});
