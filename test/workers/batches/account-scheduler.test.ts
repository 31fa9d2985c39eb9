import { setTimeout as sleep } from 'node:timers/promises';
import type { ExecutionContext } from 'ava';
import test from 'ava';
import type { Batch } from '../../../shared/batches/batch.ts';
import type { Account } from '../../../shared/store/records/account.ts';
import { createAccountScheduler, oneAtATime } from '../../../workers/batches/account-scheduler.ts';
import { createReadAhead } from '../../../workers/batches/files/ordered-lines.ts';
import type { BatchJob } from '../../../workers/batches/lines/batch-job.ts';
import type { LineEvent } from '../../../workers/batches/lines/line-events.ts';
import { createRecoverLostLines } from '../../../workers/batches/recover-lost-lines.ts';
import { batchOf, resultOf, retryOf } from '../../shared/store/batch-records.ts';
import { type BatchSide, openBatchSide } from '../../support/batch-side.ts';
import { openRedisDatabase, type RedisDatabase } from '../../support/private-redis.ts';

let own: RedisDatabase;

test.before(async () => {
  own = await openRedisDatabase();
});

test.after.always(() => own?.[Symbol.asyncDispose]());
test.serial.beforeEach(() => own.redis.flushdb());

type Given = { suspended?: boolean; add?: (job: BatchJob) => Promise<void> | undefined };

/** The scheduler of one account. `queued` are the jobs that it has queued, in order. */
function run(t: ExecutionContext, side: BatchSide, given: Given = {}) {
  const queued: BatchJob[] = [];
  let requests = 0;
  const { store } = side;
  const known = { plan: 'free', suspended: given.suspended ?? false };
  const scheduler = createAccountScheduler({
    ...side,
    readAhead: createReadAhead(),
    store: {
      batches: store.batches,
      files: store.files,
      accounts: { ...store.accounts, findAccount: async () => known as Account }, // the only fields that are read
    },
    queue: {
      async add(job) {
        await given.add?.(job);
        await side.queue.add(job);
        queued.push(job);
      },
    },
    recoverLostLines: createRecoverLostLines({ ...side, store: store.batches }),
    control: 'svc:control:here',
    refreshSoon: () => void requests++,
  });
  t.teardown(() => scheduler.stop());

  return {
    ...scheduler,
    known,
    queued,
    refreshRequests: () => requests,
    /** Refreshes as the supervisor does, and waits until this many lines were queued in all. */
    async refresh(count = queued.length, ...others: Batch[]): Promise<void> {
      const batches = [await side.find(), ...others].filter(({ state }) => state === 'in_progress');
      await scheduler.refresh(batches, Date.now());
      while (queued.length < count) await sleep(5);
    },
    refreshOnly: (batches: readonly Batch[]) => scheduler.refresh(batches, Date.now()),
    lines: () => queued.map(({ line, number }) => (number === 1 ? line : `retry of ${line}`)),
    /** Does what a worker does when a line is answered. */
    async answer(line: number, number = 1): Promise<void> {
      await store.batches.insertResults([resultOf(side.batch.id, line)]);
      await side.queue.remove({ model: 'small-chat', requestId: side.requestOf(line, number) });
      scheduler.receive({ type: 'ended', answered: true, batch: side.batch.id, line, number });
    },
    receive: (event: Partial<LineEvent> & Pick<LineEvent, 'type'>) =>
      scheduler.receive({ batch: side.batch.id, line: 1, number: 1, ...event } as LineEvent), // complete with what each test passes
  };
}

test.serial('queues as many lines as the account may have at once, and one more for each that ends', async (t) => {
  await using side = await openBatchSide(own.redis, { lines: 20 });
  const account = run(t, side);
  await account.refresh(8);
  await sleep(300);
  t.deepEqual(account.lines(), [1, 2, 3, 4, 5, 6, 7, 8]);
  await account.answer(3);
  while (account.queued.length < 9) await sleep(5);
  t.deepEqual(account.lines().slice(8), [9]);
  t.like(account.queued[0], {
    ...{ requestId: side.requestOf(1), account: side.account, batch: side.batch.id, line: 1, number: 1 },
    ...{ customId: 'line 1', plan: 'free', failures: 0, losses: 0, tellTo: 'svc:control:here' },
  });
  t.true((account.queued[0]?.reservedTokens ?? 0) > 0);
});

test.serial('a batch whose lines have all ended is counted, and moves to its next state', async (t) => {
  await using side = await openBatchSide(own.redis, { lines: 3 });
  const account = run(t, side);
  await account.refresh(3);
  await account.answer(1);
  await account.refresh();
  t.like(await side.find(), { state: 'in_progress', counts: { completed: 1, failed: 0 }, position: { line: 2 } });
  await account.answer(2);
  await side.store.batches.insertResults([resultOf(side.batch.id, 3, { failed: true })]);
  account.receive({ type: 'ended', answered: false, line: 3 });
  while (account.refreshRequests() === 0) await sleep(5); // meanwhile the pump finds the end of the file
  await account.refresh();
  t.like(await side.find(), { state: 'finalizing', ending: 'completed', counts: { completed: 2, failed: 1 } });
});

test.serial('batches of an account take turns, line by line', async (t) => {
  await using side = await openBatchSide(own.redis, { lines: 20 });
  const other = batchOf({
    account: side.account,
    inputFile: side.batch.inputFile,
    counts: { total: 20, completed: 0, failed: 0 },
  });
  await side.store.batches.insertBatch(other);
  const account = run(t, side);
  await account.refresh(8, other);
  const own8 = account.queued.filter(({ batch }) => batch === side.batch.id);
  t.deepEqual(
    own8.map(({ line }) => line),
    [1, 2, 3, 4],
  );
});

test.serial('a batch whose file cannot be read does not stop the others', async (t) => {
  await using side = await openBatchSide(own.redis, { lines: 4 });
  const lost = batchOf({ account: side.account, id: 'batch_0', counts: { total: 4, completed: 0, failed: 0 } });
  await side.store.batches.insertBatch(lost);
  const account = run(t, side);
  await account.refreshOnly([lost, await side.find()]);
  while (account.queued.length < 4) await sleep(5);
  t.deepEqual(account.lines(), [1, 2, 3, 4]);
});

test.serial(
  'a worker that takes over queues the lines without a result, and those tried before as their next request',
  async (t) => {
    await using side = await openBatchSide(own.redis, { lines: 6 });
    await side.store.batches.insertResults([1, 3].map((line) => resultOf(side.batch.id, line)));
    await side.store.batches.recordRetry(retryOf(side.batch.id, 5, { notBefore: new Date(0) }));
    await side.add(2);
    const account = run(t, side);
    await account.refresh(4);
    t.deepEqual(new Set(account.lines()), new Set([2, 4, 6, 'retry of 5']));
    t.is(await jobsIn(side), 4, 'the line that was already queued has one job');
  },
);

test.serial('a line to retry is queued when it is due, as its next request', async (t) => {
  await using side = await openBatchSide(own.redis, { lines: 1 });
  const account = run(t, side);
  await account.refresh(1);
  const retry = retryOf(side.batch.id, 1, { notBefore: new Date(Date.now() + 300) });
  await side.store.batches.recordRetry(retry);
  const receivedAt = Date.now();
  account.receive({ type: 'retry', retry });
  while (account.queued.length < 2) await sleep(5);
  t.true(Date.now() - receivedAt >= 295);
  t.deepEqual(account.lines(), [1, 'retry of 1']);
  t.like(account.queued[1], { number: 2, failures: 1, requestId: side.requestOf(1, 2) });
});

test.serial('a dropped line is looked up at once, and run again if it has no result', async (t) => {
  await using side = await openBatchSide(own.redis, { lines: 1 });
  const account = run(t, side);
  await account.refresh(1);
  await side.queue.remove({ model: 'small-chat', requestId: side.requestOf(1) });
  await account.refresh();
  t.deepEqual(account.lines(), [1], 'an event of it arrived a moment ago');
  account.receive({ type: 'dropped' });
  await account.refresh(2);
  t.deepEqual(account.lines(), [1, 'retry of 1']);
});

test.serial('an event of a request that is not the line’s latest changes nothing', async (t) => {
  await using side = await openBatchSide(own.redis, { lines: 9 });
  const account = run(t, side);
  await account.refresh(8);
  account.receive({ type: 'ended', answered: true, number: 2 });
  account.receive({ type: 'ended', answered: true, line: 9 });
  account.receive({ type: 'ended', answered: true, batch: 'batch_another' });
  await sleep(300);
  t.is(account.queued.length, 8);
});

test.serial('the lines of a suspended account wait', async (t) => {
  await using side = await openBatchSide(own.redis);
  const account = run(t, side, { suspended: true });
  await account.refresh();
  await sleep(300);
  t.deepEqual(account.queued, []);
  account.known.suspended = false;
  await account.refresh(5);
  t.deepEqual(account.lines(), [1, 2, 3, 4, 5]);
});

test.serial('a line whose model is gone from the plan file ends with that error', async (t) => {
  await using side = await openBatchSide(own.redis, { lines: 2, model: 'gone' });
  const account = run(t, side);
  await account.refresh();
  while ((await side.results()).length < 2) await sleep(5);
  t.like((await side.results())[0], {
    ...{
      customId: 'line 1',
      failed: true,
      error: { code: 'VALIDATION_ERROR', message: 'model: there is no such model' },
    },
  });
  // The last result is stored before its line ends. Only reading SQLite would block the event loop.
  while ((await side.find()).state === 'in_progress') {
    await sleep(5);
    await account.refresh();
  }
  t.is((await side.find()).state, 'finalizing');
});

test.serial(
  'a line that could not be queued is queued later as the same request, which counts as no loss',
  async (t) => {
    await using side = await openBatchSide(own.redis, { lines: 2 });
    let failures = 4;
    const add = async ({ line }: BatchJob) => {
      if (line === 1 && failures-- > 0) throw new Error('OOM command not allowed');
    };
    const account = run(t, side, { add });
    await account.refresh(2);
    t.deepEqual(account.lines(), [2, 1]);
    t.deepEqual(await side.store.batches.listRetries(side.batch.id), []);
    t.is((await side.find()).position.line, 1);
  },
);

test.serial(
  'a batch whose feed is done, but has lines without a result, starts again from what is stored',
  async (t) => {
    await using side = await openBatchSide(own.redis, { lines: 2 });
    const account = run(t, side);
    await account.refresh(2);
    await account.answer(1);
    await side.queue.remove({ model: 'small-chat', requestId: side.requestOf(2) });
    account.receive({ type: 'ended', answered: true, line: 2 }); // it has no result
    while (account.refreshRequests() === 0) await sleep(5);
    await account.refresh();
    t.is((await side.find()).state, 'in_progress');
    await account.refresh();
    await account.refresh(3);
    t.deepEqual(account.lines(), [1, 2, 2]);
  },
);

test.serial('a batch that no longer runs is closed, and its queued lines stay in the queue', async (t) => {
  await using side = await openBatchSide(own.redis, { lines: 20 });
  const account = run(t, side);
  await account.refresh(8);
  await side.moveBatch({ state: 'cancelling' });
  await account.refresh();
  account.receive({ type: 'ended', answered: true });
  await sleep(300);
  t.is(account.queued.length, 8);
  t.is(await jobsIn(side), 8);
});

test.serial('queues no more lines after it is stopped', async (t) => {
  await using side = await openBatchSide(own.redis, { lines: 20 });
  const account = run(t, side);
  await account.refresh(8);
  await account.stop();
  for (let line = 1; line <= 8; line++) account.receive({ type: 'ended', answered: true, line });
  await sleep(300);
  t.is(account.queued.length, 8);
});

function jobsIn(side: BatchSide): Promise<number> {
  const lines = [1, 2].flatMap((number) =>
    Array.from({ length: 20 }, (_, index) => ({ model: 'small-chat', requestId: side.requestOf(index + 1, number) })),
  );
  return side.queue.remaining(lines).then(({ size }) => size);
}

/** Work that ends when the test resolves it. */
function open() {
  const stop = new AbortController();
  const started: PromiseWithResolvers<void>[] = [];
  const request = oneAtATime(() => {
    const work = Promise.withResolvers<void>();
    started.push(work);
    return work.promise;
  }, stop.signal);
  return { request, started, stop: () => stop.abort() };
}

test('work that is requested while it runs, once or often, runs once more', async (t) => {
  const { request, started } = open();
  const first = request();
  for (let times = 0; times < 5; times++) await request();
  t.is(started.length, 1);
  started[0]?.resolve();
  while (started.length < 2) await Promise.resolve();
  started[1]?.resolve();
  await first;
  t.is(started.length, 2);
  void request();
  t.is(started.length, 3);
});

test('no work starts after the signal is aborted', async (t) => {
  const { request, started, stop } = open();
  const first = request();
  void request();
  stop();
  started[0]?.resolve();
  await first;
  await request();
  t.is(started.length, 1);
});

test('work that failed starts again on the next request', async (t) => {
  const { request, started } = open();
  const first = request();
  const failure = new Error('failed');
  started[0]?.reject(failure);
  await t.throwsAsync(first, { is: failure });
  void request();
  t.is(started.length, 2);
});
