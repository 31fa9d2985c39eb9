import { setTimeout as sleep } from 'node:timers/promises';
import test from 'ava';
import type { Batch } from '../../../../shared/batches/batch.ts';
import { createClearBatch, createCloseBatch } from '../../../../workers/batches/files/close-batch.ts';
import { answeredLine } from '../../../../workers/batches/lines/line-results.ts';
import { resultOf, retryOf } from '../../../shared/store/batch-records.ts';
import { type BatchSide, openBatchSide } from '../../../support/batch-side.ts';
import { openRedisDatabase, type RedisDatabase } from '../../../support/private-redis.ts';

let own: RedisDatabase;
const never = new AbortController().signal;

test.before(async () => {
  own = await openRedisDatabase();
});

test.after.always(() => own?.[Symbol.asyncDispose]());
test.serial.beforeEach(() => own.redis.flushdb());

type Closing = Partial<Batch> & { agoMs?: number; signal?: AbortSignal };

/** Closes a batch that was cancelled `agoMs` ago. */
async function close(side: BatchSide, { agoMs = 60_000, signal = never, ...change }: Closing = {}): Promise<void> {
  const now = Date.now();
  const cancelled = { state: 'cancelling', ending: 'cancelled', cancellingAt: new Date(now - agoMs) } as const;
  const batch = await side.moveBatch({ ...cancelled, ...change });
  await createCloseBatch(side)(batch, { now, signal });
}

const codesOf = async (side: BatchSide) =>
  (await side.results()).map(({ line, error }) => [line, error?.code ?? 'answered']);

test.serial('every line without a result gets one, with its custom id and the batch’s ending', async (t) => {
  await using side = await openBatchSide(own.redis);
  await side.store.batches.insertResults([resultOf(side.batch.id, 2)]);
  await close(side);
  t.deepEqual(await codesOf(side), [
    [1, 'batch_cancelled'],
    [2, 'answered'],
    [3, 'batch_cancelled'],
    [4, 'batch_cancelled'],
    [5, 'batch_cancelled'],
  ]);
  t.like((await side.results())[2], {
    customId: 'line 3',
    requestId: side.requestOf(3),
    promptTokens: 0,
    status: null,
  });
});

test.serial('the lines of an expired batch end as expired', async (t) => {
  await using side = await openBatchSide(own.redis, { lines: 1 });
  const now = Date.now();
  const batch = await side.moveBatch({ state: 'finalizing', ending: 'expired', finalizingAt: new Date(now) });
  await createCloseBatch(side)(batch, { now, signal: never });
  t.deepEqual(await codesOf(side), [[1, 'batch_expired']]);
});

test.serial('waiting jobs are removed, and their leases are released', async (t) => {
  await using side = await openBatchSide(own.redis);
  for (const line of [1, 2, 3]) await side.add(line);
  await side.lease(1);
  await close(side, { agoMs: 0 });
  t.deepEqual(
    await side.queue.remaining([1, 2, 3].map((line) => ({ model: 'small-chat', requestId: side.requestOf(line) }))),
    new Set(),
  );
  t.is(await side.leases(), 0);
  t.like(await side.counters(), { chargedTokens: 0, reservedTokens: 0 });
  t.is((await side.results()).length, 5);
});

test.serial('a line without a job ends under its latest request', async (t) => {
  await using side = await openBatchSide(own.redis);
  await side.store.batches.recordRetry(retryOf(side.batch.id, 4));
  await side.add(4, 2);
  await close(side);
  t.is((await side.results())[3]?.requestId, side.requestOf(4, 2));
  t.deepEqual(await side.queue.remaining([{ model: 'small-chat', requestId: side.requestOf(4, 2) }]), new Set());
});

test.serial('a running line has time to end, and keeps its own result', async (t) => {
  await using side = await openBatchSide(own.redis);
  await side.add(2);
  const end = await side.take();
  const closing = close(side, { agoMs: 0 });
  while ((await side.results()).length < 4) await sleep(5);
  t.false((await codesOf(side)).some(([line]) => line === 2));
  const usage = { promptTokens: 1, completionTokens: 1, cachedTokens: 0, estimated: false };
  await side.store.batches.insertResults([answeredLine(side.jobOf(2), '{}', usage)]);
  await end();
  await closing;
  t.deepEqual((await codesOf(side))[1], [2, 'answered']);
});

test.serial('a line that runs for more than ten seconds is closed, and its lease is left to its worker', async (t) => {
  await using side = await openBatchSide(own.redis);
  await side.add(2);
  await side.lease(2);
  await side.take();
  let looks = 0;
  const queue: BatchSide['queue'] = {
    ...side.queue,
    remaining(lines) {
      looks++;
      return side.queue.remaining(lines);
    },
  };
  await close({ ...side, queue }, { agoMs: 10_000 });
  t.is(looks, 1, 'it does not wait for another ten seconds');
  t.deepEqual((await codesOf(side))[1], [2, 'batch_cancelled']);
  t.is(await side.leases(), 1);
  const late = answeredLine(side.jobOf(2), '{}', {
    promptTokens: 1,
    completionTokens: 1,
    cachedTokens: 0,
    estimated: false,
  });
  t.like(await side.writeResult(late, side.batch, never), {
    error: { code: 'batch_cancelled' },
    promptTokens: 0,
  });
});

test.serial('closing again gives no line a second result', async (t) => {
  await using side = await openBatchSide(own.redis, { lines: 450 });
  const stop = new AbortController();
  const closing = close(side, { signal: stop.signal });
  while ((await side.results()).length === 0) await sleep(1);
  stop.abort(new Error('killed'));
  await closing.catch(() => {});
  const before = await side.results();
  await close(side);
  const results = await side.results();
  t.deepEqual(
    results.map(({ line }) => line),
    Array.from({ length: 450 }, (_, index) => index + 1),
  );
  t.deepEqual(results.slice(0, before.length), before);
  t.regex(await metricsOf(side), /^svc_batch_lines_total\{outcome="batch_cancelled"\} \d+$/m);
});

test.serial('lines before the position of a batch are not read', async (t) => {
  await using side = await openBatchSide(own.redis);
  const byte = (await side.read(side.batch.inputFile)).split('\n').slice(0, 3).join('\n').length + 1;
  await close(side, { position: { line: 4, byte } });
  t.deepEqual(
    (await codesOf(side)).map(([line]) => line),
    [4, 5],
  );
});

test.serial('a batch whose model is gone from the plan file is closed like any other', async (t) => {
  await using side = await openBatchSide(own.redis, { model: 'a-model-that-is-gone' });
  await close(side);
  t.is((await side.results()).length, 5);
  t.like((await side.results())[0], { customId: 'line 1', error: { code: 'batch_cancelled' } });
});

test.serial('a batch whose file is gone is closed, too', async (t) => {
  await using side = await openBatchSide(own.redis);
  await side.store.files.remove(side.batch.inputFile);
  await t.notThrowsAsync(close(side));
  t.deepEqual(await side.results(), []);
});

for (const [name, change] of Object.entries({
  'never ran': { inProgressAt: undefined },
  'has completed': { ending: 'completed' as const },
})) {
  test.serial(`closes no line of a batch that ${name}`, async (t) => {
    await using side = await openBatchSide(own.redis, { ending: 'cancelled' });
    await createCloseBatch(side)({ ...side.batch, ...change } as typeof side.batch, { now: Date.now(), signal: never }); // removes fields that are undefined
    t.deepEqual(await side.results(), []);
  });
}

async function metricsOf(side: BatchSide): Promise<string> {
  const { values } = await side.metrics.batchLines.get();
  return values.map(({ labels, value }) => `svc_batch_lines_total{outcome="${labels.outcome}"} ${value}`).join('\n');
}

test.serial('leaves no results of a batch that another worker has closed and cleared meanwhile', async (t) => {
  await using side = await openBatchSide(own.redis);
  const batch = await side.moveBatch({ state: 'cancelling', ending: 'cancelled', cancellingAt: new Date(0) });
  await side.moveBatch({ state: 'cancelled', open: false });
  await t.throwsAsync(createCloseBatch(side)(batch, { now: Date.now(), signal: never }), {
    message: /cleared by another worker/,
  });
  t.deepEqual(await side.results(), []);
});

async function openCleared(lines = 5) {
  const side = await openBatchSide(own.redis, { lines });
  const numbers = Array.from({ length: lines }, (_, index) => index + 1);
  await side.store.batches.insertResults(numbers.map((line) => resultOf(side.batch.id, line)));
  const clear = createClearBatch(side);
  return Object.assign(side, { clear: (given = never) => clear(side.batch, given) });
}

test.serial('removes all results of a batch', async (t) => {
  await using side = await openCleared(1_200);
  await side.store.batches.recordRetry(retryOf(side.batch.id, 3));
  t.true(await side.clear());
  t.deepEqual(await side.results(), []);
  t.deepEqual(await side.store.batches.listRetries(side.batch.id), []);
  t.true(await side.clear(), 'also if no result is left');
});

test.serial('removes nothing while a job of one of its lines exists', async (t) => {
  await using side = await openCleared();
  await side.add(4);
  const end = await side.take();
  t.false(await side.clear());
  t.is((await side.results()).length, 5);
  await end();
  t.true(await side.clear());
});

test.serial('waits for the job of a line’s latest request, in any model’s queue', async (t) => {
  await using side = await openCleared();
  await side.store.batches.recordRetry(retryOf(side.batch.id, 2));
  await side.queue.add({ ...side.jobOf(2, 2), model: 'large-chat' });
  t.false(await side.clear());
  await side.queue.remove({ model: 'large-chat', requestId: side.requestOf(2, 2) });
  t.true(await side.clear());
});

test.serial('a shutdown leaves the rest to the next worker', async (t) => {
  await using side = await openCleared(1_200);
  const reason = new Error('shutdown');
  await t.throwsAsync(side.clear(AbortSignal.abort(reason)), { is: reason });
  t.true(await side.clear());
  t.deepEqual(await side.results(), []);
});
