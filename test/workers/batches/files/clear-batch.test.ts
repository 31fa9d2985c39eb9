import test from 'ava';
import { createClearBatch } from '../../../../workers/batches/files/close-batch.ts';
import { resultOf, retryOf } from '../../../shared/store/batch-records.ts';
import { openBatchSide } from '../../../support/batch-side.ts';
import { openRedisDatabase, type RedisDatabase } from '../../../support/private-redis.ts';

let own: RedisDatabase;
const signal = new AbortController().signal;

test.before(async () => {
  own = await openRedisDatabase();
});

test.after.always(() => own?.[Symbol.asyncDispose]());
test.serial.beforeEach(() => own.redis.flushdb());

async function open(lines = 5) {
  const side = await openBatchSide(own.redis, { lines });
  const numbers = Array.from({ length: lines }, (_, index) => index + 1);
  await side.store.batches.insertResults(numbers.map((line) => resultOf(side.batch.id, line)));
  const clear = createClearBatch(side);
  return Object.assign(side, { clear: (given = signal) => clear(side.batch, given) });
}

test.serial('removes all results of a batch', async (t) => {
  await using side = await open(1_200);
  await side.store.batches.recordRetry(retryOf(side.batch.id, 3));
  t.true(await side.clear());
  t.deepEqual(await side.results(), []);
  t.deepEqual(await side.store.batches.listRetries(side.batch.id), []);
  t.true(await side.clear(), 'also if no result is left');
});

test.serial('removes nothing while a job of one of its lines exists', async (t) => {
  await using side = await open();
  await side.add(4);
  const end = await side.take();
  t.false(await side.clear());
  t.is((await side.results()).length, 5);
  await end();
  t.true(await side.clear());
});

test.serial('waits for the job of a line’s latest request, in any model’s queue', async (t) => {
  await using side = await open();
  await side.store.batches.recordRetry(retryOf(side.batch.id, 2));
  await side.queue.add({ ...side.jobOf(2, 2), model: 'large-chat' });
  t.false(await side.clear());
  await side.queue.remove({ model: 'large-chat', requestId: side.requestOf(2, 2) });
  t.true(await side.clear());
});

test.serial('a shutdown leaves the rest to the next worker', async (t) => {
  await using side = await open(1_200);
  const reason = new Error('shutdown');
  await t.throwsAsync(side.clear(AbortSignal.abort(reason)), { is: reason });
  t.true(await side.clear());
  t.deepEqual(await side.results(), []);
});
