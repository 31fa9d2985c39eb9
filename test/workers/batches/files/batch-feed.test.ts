import test from 'ava';
import type { BatchRetry } from '../../../../shared/batches/batch.ts';
import { FileGone } from '../../../../shared/batches/split-lines.ts';
import {
  createBatchFeed,
  type MayQueue,
  type NextLine,
  type RefusedNextLine,
} from '../../../../workers/batches/files/batch-feed.ts';
import { createReadAhead } from '../../../../workers/batches/files/ordered-lines.ts';
import { requestIdOf } from '../../../../workers/batches/lines/batch-job.ts';
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
};

function open({ lines, endedLines = [], retries = [], from = 1 }: Given) {
  const text = lines.join('\n');
  const byte = lines.slice(0, from - 1).join('\n').length + (from > 1 ? 1 : 0);
  const batch = batchOf({ position: { line: from, byte } });
  const memory = memoryFiles({ [batch.inputFile]: text });
  const feed = createBatchFeed({
    ...{ batch, endedLines, rules: () => rules, files: memory.files, readAhead: createReadAhead() },
    retries: retries.map((retry) => ({ ...retry, batch: batch.id })),
  });
  /** Takes out all lines that may be queued, and returns their numbers. */
  async function takeAll(at = now, mayQueue: MayQueue = () => 'yes'): Promise<number[]> {
    const taken: number[] = [];
    for (let line = await feed.next(at, mayQueue); line !== undefined; line = await feed.next(at, mayQueue)) {
      if (!isNext(line)) throw new Error(`line ${line.line} is wrong`);
      taken.push(line.line);
    }
    return taken;
  }
  return { ...memory, batch, feed, takeAll };
}

function isNext(line: NextLine | RefusedNextLine): line is NextLine {
  return 'call' in line;
}

const plain = (count: number, model = 'small-chat') =>
  Array.from({ length: count }, (_, index) => lineOf(`of ${index + 1}`, { model }));

test('lines without keys come in the order of the file, as their first request', async (t) => {
  const { feed, batch } = open({ lines: plain(3) });
  for (const line of [1, 2, 3]) {
    const next = await feed.next(now, () => 'yes');
    const fresh = { call: { model: 'small-chat' }, number: 1, failures: 0, losses: 0 };
    t.like(next, { line, customId: `of ${line}`, requestId: requestIdOf(batch.id, line, 1), ...fresh });
    t.deepEqual(feed.position(), { line: 1, byte: 0 }, 'none of them has a result');
  }
  t.is(await feed.next(now, () => 'yes'), undefined);
  t.false(feed.isDone(), 'they have not ended');
});

test('a line that must wait is the next one when it may be queued', async (t) => {
  const { feed } = open({ lines: plain(2) });
  t.is(await feed.next(now, () => 'wait'), undefined);
  t.like(await feed.next(now, () => 'yes'), { line: 1 });
});

test('lines of a stuck model are skipped, and come when it is no longer stuck', async (t) => {
  const { feed, takeAll } = open({ lines: [...plain(2, 'large-chat'), ...plain(2)] });
  const stuck = (model: string) => (model === 'large-chat' ? ('skip' as const) : ('yes' as const));
  t.deepEqual(await takeAll(now, stuck), [3, 4]);
  t.deepEqual(feed.position(), { line: 1, byte: 0 });
  t.deepEqual(await takeAll(now, () => 'wait'), []);
  t.deepEqual(await takeAll(), [1, 2]);
});

test('lines of other models continue when thousands of lines wait for a stuck model', async (t) => {
  const { takeAll } = open({ lines: [...plain(5_000, 'large-chat'), ...plain(2)] });
  const stuck = (model: string) => (model === 'large-chat' ? ('skip' as const) : ('yes' as const));
  t.deepEqual(await takeAll(now, stuck), [5_001, 5_002]);
  t.is((await takeAll()).length, 5_000);
});

test('lines of an unavailable model are skipped, and one of them is the probe, even if none is due', async (t) => {
  const { feed, batch, takeAll } = open({ lines: [...plain(3, 'medium-chat'), ...plain(1)] });
  const skip: MayQueue = (model) => (model === 'medium-chat' ? 'skip' : 'yes');
  const probe: MayQueue = (model) => (model === 'medium-chat' ? 'probe' : 'yes');
  t.like(await feed.next(now, probe), { line: 4 }, 'lines of the file are not probes until they are skipped');
  t.like(await feed.next(now, probe), { line: 1 });
  t.deepEqual(await takeAll(now, skip), []);
  feed.retry({ ...retryOf(batch.id, 1), notBefore: new Date(now + 60_000) });
  for (const line of [2, 3, 1]) t.like(await feed.next(now, probe), { line, customId: `of ${line}` });
});

test('lines of a model that is available again become due within a second', async (t) => {
  const { feed, batch, takeAll } = open({ lines: plain(2) });
  await takeAll();
  for (const line of [1, 2]) feed.retry({ ...retryOf(batch.id, line), notBefore: new Date(now + 60_000) });
  feed.wake('small-chat', now);
  t.deepEqual(new Set(await takeAll(now + 1_000)), new Set([1, 2]));
});

test('begins at the position of the batch, and skips lines that have a result', async (t) => {
  const { feed, takeAll } = open({ lines: plain(6), from: 3, endedLines: [4, 5] });
  t.deepEqual(await takeAll(), [3, 6]);
  feed.ended(3);
  t.is(feed.position().line, 6);
  feed.ended(6);
  t.is(feed.position().line, 7);
  t.true(feed.isDone());
});

test('a line that was tried before comes when it is due, as its next request', async (t) => {
  const retries = [retryOf('', 1, { number: 4, failures: 2, losses: 1, notBefore: new Date(now + 500) })];
  const { feed, batch, takeAll } = open({ lines: plain(2), retries });
  t.deepEqual(await takeAll(), [2]);
  t.deepEqual(await takeAll(now + 499), []);
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

test('a line that comes back waits until it is due, and holds the position', async (t) => {
  const { feed, batch, takeAll } = open({ lines: plain(3) });
  await takeAll();
  feed.ended(1);
  feed.ended(3);
  feed.retry({ ...retryOf(batch.id, 2), notBefore: new Date(now + 1_000) });
  t.is(feed.position().line, 2);
  t.false(feed.isDone());
  t.deepEqual(await takeAll(now + 999), []);
  t.like(await feed.next(now + 1_000, () => 'yes'), { line: 2, number: 2, failures: 1 });
});

test('a line that was not taken out neither ends nor comes back', async (t) => {
  const { feed, batch, takeAll } = open({ lines: plain(1) });
  feed.retry(retryOf(batch.id, 1));
  feed.ended(7);
  t.deepEqual(await takeAll(), [1]);
});

test('a line whose model is gone from the plan file comes with its faults, even if no line may be queued', async (t) => {
  const { feed } = open({ lines: plain(1, 'gone'), retries: [] });
  t.like(await feed.next(now, () => 'wait'), { line: 1, customId: 'of 1', number: 1 });
  t.deepEqual(feed.position(), { line: 1, byte: 0 }, 'it has no result yet');
  feed.ended(1);
  t.is(feed.position().line, 2);
});

test('a failed read loses no line, neither a new one nor one that comes back', async (t) => {
  const { feed, batch, fail, takeAll } = open({ lines: plain(2) });
  const unavailable = new Error('unavailable');
  fail(unavailable);
  await t.throwsAsync(takeAll(), { is: unavailable });
  t.false(feed.isDone());
  t.deepEqual(await takeAll(), [1, 2]);
  feed.retry(retryOf(batch.id, 1, { notBefore: new Date(now) }));
  fail(unavailable);
  await t.throwsAsync(takeAll(), { is: unavailable });
  t.is(feed.position().line, 1);
  t.deepEqual(await takeAll(), [1]);
});

test('a batch whose file is gone is not done', async (t) => {
  const { feed, remove, takeAll } = open({ lines: plain(2) });
  remove();
  await t.throwsAsync(takeAll(), { instanceOf: FileGone });
  await t.throwsAsync(takeAll(), { instanceOf: FileGone });
  t.false(feed.isDone());
});

test('a line with an unlisted field is wrong, also on a retry', async (t) => {
  const lines = [lineOf('one').replace('"model"', '"priority":-1,"service_tier":"flex","model"')];
  const strict = open({ lines });
  t.like(await strict.feed.next(now, () => 'yes'), {
    line: 1,
    customId: 'one',
    refused: { issues: [{ path: 'priority' }] },
  });
  const again = open({ lines, retries: [retryOf('', 1, { notBefore: new Date(0) })] });
  t.is(await again.feed.next(now, () => 'yes'), undefined, 'it waits, because it was tried before');
  t.like(await again.feed.next(now, () => 'yes'), { line: 1, refused: { issues: [{ path: 'priority' }] } });
});
