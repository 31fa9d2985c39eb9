import test from 'ava';
import type { BatchRetry } from '../../../../shared/batches/batch.ts';
import { FileGone } from '../../../../workers/batches/files/read-lines.ts';
import { requestIdOf } from '../../../../workers/batches/lines/ids.ts';
import { createBatchFeed, type NextLine, type WrongLine } from '../../../../workers/batches/scheduler/batch-feed.ts';
import { createModelHealth } from '../../../../workers/batches/scheduler/model-health.ts';
import { batchOf, retryOf } from '../../../shared/store/batch-records.ts';
import { lineOf } from '../../../support/batch-client.ts';
import { batchPlan, lineRules } from '../../../support/batch-plan.ts';
import { memoryFiles } from '../../../support/memory-files.ts';

const rules = lineRules(batchPlan());
const now = 1_000_000;

type Given = {
  lines: readonly string[];
  endedLines?: readonly number[];
  retries?: readonly BatchRetry[];
  from?: number;
  listedFieldsOnly?: boolean;
};

function open({ lines, endedLines = [], retries = [], from = 1, listedFieldsOnly = true }: Given) {
  const text = lines.join('\n');
  const byte = lines.slice(0, from - 1).join('\n').length + (from > 1 ? 1 : 0);
  const batch = batchOf({ position: { line: from, byte }, listedFieldsOnly });
  const memory = memoryFiles({ [batch.inputFile]: text });
  const health = createModelHealth();
  const feed = createBatchFeed({
    ...{ batch, endedLines, health, rules, files: memory.files },
    retries: retries.map((retry) => ({ ...retry, batch: batch.id })),
  });
  /** Queues what may be queued, and says which lines those are. */
  async function queueAll(at = now, mayQueue: Parameters<typeof feed.next>[1] = () => 'yes'): Promise<number[]> {
    const queued: number[] = [];
    for (let line = await feed.next(at, mayQueue); line !== undefined; line = await feed.next(at, mayQueue)) {
      if (!isNext(line)) throw new Error(`line ${line.line} is wrong`);
      feed.queued(line, at);
      queued.push(line.line);
    }
    return queued;
  }
  return { ...memory, batch, feed, health, queueAll };
}

function isNext(line: NextLine | WrongLine): line is NextLine {
  return 'call' in line;
}

const plain = (count: number, model = 'small-chat') =>
  Array.from({ length: count }, (_, index) => lineOf(`of ${index + 1}`, { model }));

test('lines come in the order of their file, named by their first request', async (t) => {
  const { feed, batch } = open({ lines: plain(3) });
  for (const line of [1, 2, 3]) {
    const next = await feed.next(now, () => 'yes');
    const fresh = { call: { model: 'small-chat' }, number: 1, failures: 0, losses: 0 };
    t.like(next, { line, customId: `of ${line}`, requestId: requestIdOf(batch.id, line, 1), ...fresh });
    t.deepEqual(feed.position(), { line: 1, byte: 0 }, 'none of them has a result');
  }
  t.is(await feed.next(now, () => 'yes'), undefined);
  t.false(feed.isDone(), 'they were given to somebody');
});

test('a line that may not be queued yet is the next one when it may', async (t) => {
  const { feed } = open({ lines: plain(2) });
  t.is(await feed.next(now, () => 'wait'), undefined);
  t.like(await feed.next(now, () => 'yes'), { line: 1 });
});

test('lines of a model that is stuck are passed over, and come when it is not', async (t) => {
  const { feed, queueAll } = open({ lines: [...plain(2, 'large-chat'), ...plain(2)] });
  const stuck = (model: string) => (model === 'large-chat' ? ('pass over' as const) : ('yes' as const));
  t.deepEqual(await queueAll(now, stuck), [3, 4]);
  t.deepEqual(feed.position(), { line: 1, byte: 0 });
  t.deepEqual(await queueAll(now, () => 'wait'), []);
  t.deepEqual(await queueAll(), [1, 2]);
});

test('however many lines wait for a model that is stuck, those for another go on', async (t) => {
  const { queueAll } = open({ lines: [...plain(5_000, 'large-chat'), ...plain(2)] });
  const stuck = (model: string) => (model === 'large-chat' ? ('pass over' as const) : ('yes' as const));
  t.deepEqual(await queueAll(now, stuck), [5_001, 5_002]);
  t.is((await queueAll()).length, 5_000);
});

test('while a model is away one line of it every three seconds finds out, and the others are left in peace', async (t) => {
  const { feed, health, queueAll } = open({ lines: [...plain(3, 'medium-chat'), ...plain(1)] });
  for (let failures = 0; failures < 8; failures++) health.failed('medium-chat');
  t.deepEqual(await queueAll(), [4, 1], 'they were passed over, and one of them is tried');
  t.deepEqual(await queueAll(now + 2_999), []);
  t.deepEqual(await queueAll(now + 3_000), [2]);
  health.answered('medium-chat');
  feed.wake('medium-chat', now + 3_001);
  t.deepEqual(await queueAll(now + 3_001), [3]);
});

test('whoever takes over begins at the position, and passes over what has a result', async (t) => {
  const { feed, queueAll } = open({ lines: plain(6), from: 3, endedLines: [4, 5] });
  t.deepEqual(await queueAll(), [3, 6]);
  feed.ended(3);
  t.is(feed.position().line, 6);
  feed.ended(6);
  t.is(feed.position().line, 7);
  t.true(feed.isDone());
});

test('a line that was tried before comes at its time, as its next request', async (t) => {
  const retries = [retryOf('', 1, { number: 4, failures: 2, losses: 1, notBefore: new Date(now + 500) })];
  const { feed, batch, queueAll } = open({ lines: plain(2), retries });
  t.deepEqual(await queueAll(), [2]);
  t.deepEqual(await queueAll(now + 499), []);
  const next = await feed.next(now + 500, () => 'yes');
  t.like(next, {
    line: 1,
    number: 4,
    failures: 2,
    losses: 1,
    requestId: requestIdOf(batch.id, 1, 4),
    customId: 'of 1',
  });
});

test('a line that is to be run again waits for its time, and holds the position', async (t) => {
  const { feed, batch, queueAll } = open({ lines: plain(3) });
  await queueAll();
  feed.ended(1);
  feed.ended(3);
  feed.again({ ...retryOf(batch.id, 2), notBefore: new Date(now + 1_000) });
  t.is(feed.position().line, 2);
  t.false(feed.isDone());
  t.deepEqual(await queueAll(now + 999), []);
  t.deepEqual(await queueAll(now + 1_000), [2]);
  t.like(feed.inHand.get(2), { number: 2, failures: 1 });
});

test('news of a line that nobody has in hand changes nothing', async (t) => {
  const { feed, batch, queueAll } = open({ lines: plain(1) });
  feed.again(retryOf(batch.id, 1));
  feed.ended(7);
  feed.changed(7, 'started', now);
  t.is(feed.inHand.size, 0);
  t.deepEqual(await queueAll(), [1]);
});

test('whether a line has started, and when it was last heard of, is known', async (t) => {
  const { feed, queueAll } = open({ lines: plain(1) });
  await queueAll();
  t.like(feed.inHand.get(1), { state: 'queued', since: now });
  feed.changed(1, 'started', now + 5);
  t.like(feed.inHand.get(1), { state: 'started', since: now + 5 });
  feed.changed(1, 'put off', now + 9);
  t.like(feed.inHand.get(1), { state: 'put off', since: now + 9 });
});

test('a line whose model is gone from the plan file is given out with its faults, whatever may be queued', async (t) => {
  const { feed } = open({ lines: plain(1, 'gone'), retries: [] });
  t.like(await feed.next(now, () => 'wait'), { line: 1, customId: 'of 1', number: 1 });
  t.deepEqual(feed.position(), { line: 1, byte: 0 }, 'it has no result yet');
  feed.ended(1);
  t.is(feed.position().line, 2);
});

test('a reading that fails loses nothing, of new lines and of those that are read again', async (t) => {
  const { feed, batch, fail, queueAll } = open({ lines: plain(2) });
  const away = new Error('away');
  fail(away);
  await t.throwsAsync(queueAll(), { is: away });
  t.false(feed.isDone());
  t.deepEqual(await queueAll(), [1, 2]);
  feed.again(retryOf(batch.id, 1, { notBefore: new Date(now) }));
  fail(away);
  await t.throwsAsync(queueAll(), { is: away });
  t.is(feed.position().line, 1);
  t.deepEqual(await queueAll(), [1]);
});

test('without its file a batch is not taken for done', async (t) => {
  const { feed, remove, queueAll } = open({ lines: plain(2) });
  remove();
  await t.throwsAsync(queueAll(), { instanceOf: FileGone });
  await t.throwsAsync(queueAll(), { instanceOf: FileGone });
  t.false(feed.isDone());
});

test('a line with a field that is not listed is wrong, also when it is tried again, and right in an older batch', async (t) => {
  const lines = [lineOf('one').replace('"model"', '"priority":-1,"service_tier":"flex","model"')];
  const strict = open({ lines });
  t.like(await strict.feed.next(now, () => 'yes'), { line: 1, customId: 'one', faults: [{ param: 'body.priority' }] });
  const again = open({ lines, retries: [retryOf('', 1, { notBefore: new Date(0) })] });
  t.is(await again.feed.next(now, () => 'yes'), undefined, 'it is put with those that wait');
  t.like(await again.feed.next(now, () => 'yes'), { line: 1, faults: [{ param: 'body.priority' }] });
  const next = await open({ lines, listedFieldsOnly: false }).feed.next(now, () => 'yes');
  if (next === undefined || !isNext(next)) return t.fail();
  t.like(JSON.parse(next.call.body), { priority: -1, service_tier: 'flex' });
});
