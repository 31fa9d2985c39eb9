import test from 'ava';
import type { BatchRetry } from '../../../shared/batches/batch.ts';
import { outboxKey, partitionOf } from '../../../shared/redis/keys.ts';
import type { LineInProgress } from '../../../workers/batches/line-window.ts';
import { answeredLine } from '../../../workers/batches/lines/line-results.ts';
import { createRecoverLostLines } from '../../../workers/batches/recover-lost-lines.ts';
import { resultOf, retryOf } from '../../shared/store/batch-records.ts';
import { openBatchSide } from '../../support/batch-side.ts';
import { openRedisDatabase, type RedisDatabase } from '../../support/private-redis.ts';

let own: RedisDatabase;
const signal = new AbortController().signal;

test.before(async () => {
  own = await openRedisDatabase();
});

test.after.always(() => own?.[Symbol.asyncDispose]());
test.serial.beforeEach(() => own.redis.flushdb());

/** A batch, and what the search for its lost lines finds. */
async function open() {
  const side = await openBatchSide(own.redis);
  const recoverLostLines = createRecoverLostLines({ ...side, store: side.store.batches });

  function lineOf(line: number, { number = 1, failures = 0, losses = 0 }: Partial<BatchRetry> = {}): LineInProgress {
    const request = { requestId: side.requestOf(line, number), customId: `line ${line}`, model: 'small-chat' };
    return { ...request, line, number, failures, losses, state: 'queued', since: Date.now(), isDoubtful: false };
  }

  /** Returns the number of each line that was found, and its retry if it has one. */
  async function search(lines: readonly LineInProgress[] = [lineOf(1)], isCurrent = true) {
    const found: { line: number; retry: BatchRetry | undefined }[] = [];
    await recoverLostLines(
      { batch: side.batch, plan: 'free', lines },
      { signal, isCurrent: () => isCurrent, onRecovered: ({ line }, retry) => void found.push({ line, retry }) },
    );
    return found;
  }

  return Object.assign(side, { lineOf, search });
}

const usage = { promptTokens: 30, completionTokens: 12, cachedTokens: 0, estimated: false };
const ended = [{ line: 1, retry: undefined }];

test.serial('a line whose job is waiting or running is left alone', async (t) => {
  await using side = await open();
  await side.add(1);
  await side.add(2);
  await side.take();
  t.deepEqual(await side.search([side.lineOf(1), side.lineOf(2)]), []);
  t.deepEqual(await side.store.batches.listRetries(side.batch.id), []);
});

test.serial('a line with a result has ended', async (t) => {
  await using side = await open();
  await side.store.batches.insertResults([resultOf(side.batch.id, 1)]);
  t.deepEqual(await side.search(), ended);
});

test.serial('a line with a recorded retry is tried again as the retry says', async (t) => {
  await using side = await open();
  await side.store.batches.recordRetry(retryOf(side.batch.id, 1, { failures: 7 }));
  t.like(await side.search(), { 0: { line: 1, retry: { number: 2, failures: 7 } }, length: 1 });
});

test.serial('a line whose retry was recorded, but not its release, is released', async (t) => {
  await using side = await open();
  await side.lease(1);
  await side.store.batches.recordRetry(retryOf(side.batch.id, 1, { failures: 7 }));
  t.like(await side.search(), { 0: { line: 1, retry: { number: 2, failures: 7 } }, length: 1 });
  t.is(await side.leases(), 0);
  t.like(await side.counters(), { chargedTokens: 0, reservedTokens: 0 });
});

test.serial('a lost line releases its lease, and its retry is recorded with one loss', async (t) => {
  await using side = await open();
  await side.lease(1);
  t.like(await side.search(), { 0: { line: 1, retry: { number: 2, losses: 1 } }, length: 1 });
  t.is(await side.leases(), 0);
  t.like(await side.counters(), { chargedTokens: 0, reservedTokens: 0 });
  t.like((await side.store.batches.listRetries(side.batch.id))[0], { line: 1, number: 2, losses: 1 });
});

test.serial('a line that is lost three times ends in the error file', async (t) => {
  await using side = await open();
  let request = side.lineOf(1);
  for (const number of [2, 3]) {
    const [found] = await side.search([request]);
    t.like(found, { retry: { number, losses: number - 1 } });
    request = side.lineOf(1, found?.retry);
  }
  t.deepEqual(await side.search([request]), ended);
  t.like((await side.results())[0], { line: 1, failed: true, error: { code: 'INTERNAL_ERROR' }, promptTokens: 0 });
});

test.serial('a line whose retry another worker recorded meanwhile is tried as that retry says', async (t) => {
  await using side = await open();
  const { recordRetry } = side.store.batches;
  const others = retryOf(side.batch.id, 1, { failures: 7 });
  side.store.batches.recordRetry = async (retry) => {
    await recordRetry.call(side.store.batches, others);
    return recordRetry.call(side.store.batches, retry);
  };
  t.like(await side.search(), { 0: { line: 1, retry: { number: 2, failures: 7, losses: 0 } }, length: 1 });
});

test.serial('a line whose worker died before it settled is settled once, by its result', async (t) => {
  await using side = await open();
  await side.lease(1);
  await side.store.batches.insertResults([answeredLine(side.jobOf(1), '{}', usage)]);
  t.deepEqual(await side.search(), ended);
  t.is(await side.leases(), 0);
  t.like(await side.counters(), { chargedTokens: 42, reservedTokens: 0 });
});

test.serial('the usage record of such a line has the alias that its client sent', async (t) => {
  await using side = await open();
  await side.lease(1);
  await side.store.batches.insertResults([answeredLine(side.jobOf(1), '{}', usage)]);
  t.deepEqual(await side.search([{ ...side.lineOf(1), requestedModel: 'old-name' }]), ended);
  const entries = await own.redis.xrange(outboxKey(partitionOf(side.batch.account)), '-', '+');
  t.is(entries.length, 1);
  t.like(JSON.parse(entries[0]?.[1].at(-1) ?? ''), { model: 'small-chat', requestedModel: 'old-name' });
});

test.serial('a line of a batch that is gone has ended', async (t) => {
  await using side = await open();
  side.store.batches.findLine = async () => undefined;
  t.deepEqual(await side.search(), ended);
});

test.serial('a line is left alone if an event of it arrived during the search', async (t) => {
  await using side = await open();
  t.deepEqual(await side.search([side.lineOf(1)], false), []);
  t.deepEqual(await side.store.batches.listRetries(side.batch.id), []);
});
