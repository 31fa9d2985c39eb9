import test from 'ava';
import { answeredLine } from '../../../../workers/batches/lines/line-results.ts';
import { createBatchFeed } from '../../../../workers/batches/scheduler/batch-feed.ts';
import { createModelHealth } from '../../../../workers/batches/scheduler/model-health.ts';
import { createRecoverLostLines } from '../../../../workers/batches/scheduler/recover-lost-lines.ts';
import { resultOf, retryOf } from '../../../shared/store/batch-records.ts';
import { openBatchSide } from '../../../support/batch-side.ts';
import { openRedisDatabase, type RedisDatabase } from '../../../support/private-redis.ts';

let own: RedisDatabase;
const signal = new AbortController().signal;
const now = Date.now();

test.before(async () => {
  own = await openRedisDatabase();
});

test.after.always(() => own?.[Symbol.asyncDispose]());
test.serial.beforeEach(() => own.redis.flushdb());

/** A batch whose first lines are in hand, as whoever feeds it believes. */
async function open(inHand: number) {
  const side = await openBatchSide(own.redis);
  const { batch, store, rules } = side;
  const feed = createBatchFeed({
    ...{ batch, endedLines: [], retries: [], files: store.files, rules },
    health: createModelHealth(),
  });
  for (let line = 1; line <= inHand; line++) {
    const next = await feed.next(now, () => 'yes');
    if (next === undefined || 'faults' in next) throw new Error('there is no line');
    feed.queued(next, now);
  }
  const look = createRecoverLostLines({ ...side, store: store.batches });
  return Object.assign(side, {
    feed,
    look: () => look({ batch, plan: 'free', feed }, [...feed.inHand.values()], signal),
    next: () => feed.next(Date.now(), () => 'yes'),
  });
}

test.serial('a line whose job is there is left alone, waiting or in some worker’s hand', async (t) => {
  await using side = await open(2);
  await side.add(1);
  await side.add(2);
  await side.take();
  t.is(await side.look(), 0);
  t.is(side.feed.inHand.size, 2);
  t.deepEqual(await side.store.batches.listRetries(side.batch.id), []);
});

test.serial('a line that has its result has ended', async (t) => {
  await using side = await open(1);
  await side.store.batches.insertResults([resultOf(side.batch.id, 1)]);
  t.is(await side.look(), 1);
  t.is(side.feed.inHand.size, 0);
  t.is(side.feed.position().line, 2);
});

test.serial('a line that was noted for another try is tried as that', async (t) => {
  await using side = await open(1);
  await side.store.batches.recordRetry(retryOf(side.batch.id, 1, { failures: 7, notBefore: new Date(0) }));
  await side.look();
  t.like(await side.next(), { line: 1, number: 2, failures: 7, requestId: side.requestOf(1, 2) });
});

test.serial(
  'a line of which nothing came gives its lease back, is noted for another try, and has lost one',
  async (t) => {
    await using side = await open(1);
    await side.lease(1);
    t.is(await side.look(), 1);
    t.is(await side.leases(), 0);
    t.like(await side.counters(), { used: 0, reserved: 0 });
    t.like((await side.store.batches.listRetries(side.batch.id))[0], { line: 1, number: 2, losses: 1 });
    t.like(await side.next(), { line: 1, number: 2, losses: 1 });
  },
);

test.serial('a line of which nothing came three times ends in the error file', async (t) => {
  await using side = await open(1);
  for (const number of [1, 2, 3]) {
    t.like(side.feed.inHand.get(1), { number });
    await side.look();
    const next = await side.next();
    if (next === undefined || 'faults' in next) throw new Error('there is no line');
    side.feed.queued(next, now);
  }
  t.like((await side.results())[0], { line: 1, failed: true, error: { code: 'INTERNAL_ERROR' }, promptTokens: 0 });
  t.is(side.feed.inHand.get(1), undefined);
  t.true(side.feed.inHand.has(2));
});

test.serial('a line that another keeper has noted meanwhile is tried as that one says', async (t) => {
  await using side = await open(1);
  const { recordRetry } = side.store.batches;
  const others = retryOf(side.batch.id, 1, { failures: 7, notBefore: new Date(0) });
  side.store.batches.recordRetry = async (retry) => {
    await recordRetry.call(side.store.batches, others);
    return recordRetry.call(side.store.batches, retry);
  };
  await side.look();
  t.like(await side.next(), { line: 1, number: 2, failures: 7, losses: 0 });
});

test.serial('a line whose worker died before it settled is settled by its result, once', async (t) => {
  await using side = await open(1);
  await side.lease(1);
  const usage = { promptTokens: 30, completionTokens: 12, cachedTokens: 0, estimated: false };
  await side.store.batches.insertResults([answeredLine(side.jobOf(1), '{}', usage)]);
  await side.look();
  t.is(await side.leases(), 0);
  t.like(await side.counters(), { used: 42, reserved: 0 });
  t.is(side.feed.inHand.size, 0);
});

test.serial('lines of a batch that is gone are let go', async (t) => {
  await using side = await open(1);
  side.store.batches.findLine = async () => undefined;
  await side.look();
  t.is(side.feed.inHand.size, 0);
});

test.serial('one that was heard of while its job was looked for is left alone', async (t) => {
  await using side = await open(1);
  const lines = [...side.feed.inHand.values()];
  side.feed.changed(1, 'started', now + 1);
  const look = createRecoverLostLines({ ...side, store: side.store.batches });
  t.is(await look({ batch: side.batch, plan: 'free', feed: side.feed }, lines, signal), 0);
  t.true(side.feed.inHand.has(1));
});
