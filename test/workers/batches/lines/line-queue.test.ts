import test from 'ava';
import { openBatchSide } from '../../../support/batch-side.ts';
import { openRedisDatabase, type RedisDatabase } from '../../../support/private-redis.ts';

let own: RedisDatabase;

test.before(async () => {
  own = await openRedisDatabase();
});

test.after.always(() => own?.[Symbol.asyncDispose]());
test.serial.beforeEach(() => own.redis.flushdb());

test.serial(
  'a job exists from when it is added until it is removed, and adding it again changes nothing',
  async (t) => {
    await using side = await openBatchSide(own.redis);
    const line = { model: 'small-chat', requestId: side.requestOf(1) };
    t.deepEqual(await side.queue.remaining([line]), new Set());
    await side.add(1);
    await side.queue.add({ ...side.jobOf(1), customId: 'another' });
    t.deepEqual(await side.queue.remaining([line]), new Set([line.requestId]));
    t.true(await side.queue.remove(line));
    t.deepEqual(await side.queue.remaining([line]), new Set());
  },
);

test.serial('a job that a worker has taken exists, and is not removed', async (t) => {
  await using side = await openBatchSide(own.redis);
  const line = { model: 'small-chat', requestId: side.requestOf(1) };
  await side.add(1);
  const end = await side.take();
  t.deepEqual(await side.queue.remaining([line]), new Set([line.requestId]));
  t.false(await side.queue.remove(line));
  await end();
  t.deepEqual(await side.queue.remaining([line]), new Set());
});

test.serial('finds the existing jobs of many lines', async (t) => {
  await using side = await openBatchSide(own.redis);
  const lines = Array.from({ length: 1_203 }, (_, index) => ({
    model: 'small-chat',
    requestId: side.requestOf(index + 1),
  }));
  for (const line of [1, 500, 501, 1_203]) await side.add(line);
  t.deepEqual(await side.queue.remaining(lines), new Set([1, 500, 501, 1_203].map((line) => side.requestOf(line))));
  t.deepEqual(await side.queue.remaining(lines.map((line) => ({ ...line, model: 'large-chat' }))), new Set());
});

test.serial('a model that is gone from the plan file has no jobs', async (t) => {
  await using side = await openBatchSide(own.redis);
  const line = { model: 'gone', requestId: side.requestOf(1) };
  t.deepEqual(await side.queue.remaining([line]), new Set());
  t.true(await side.queue.remove(line));
});

test.serial('a job whose model is unknown is found in any queue, and not removed from its worker', async (t) => {
  await using side = await openBatchSide(own.redis);
  await side.add(1);
  await side.take();
  await side.add(2);
  const [taken, waiting] = [1, 2].map((line) => ({ model: undefined, requestId: side.requestOf(line) }));
  if (taken === undefined || waiting === undefined) return t.fail();
  t.is((await side.queue.remaining([taken, waiting])).size, 2);
  t.false(await side.queue.remove(taken));
  t.true(await side.queue.remove(waiting));
  t.deepEqual(await side.queue.remaining([taken, waiting]), new Set([taken.requestId]));
});
