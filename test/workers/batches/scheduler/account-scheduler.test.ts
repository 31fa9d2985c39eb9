import { setTimeout as sleep } from 'node:timers/promises';
import test, { type ExecutionContext } from 'ava';
import type { Batch } from '../../../../shared/batches/batch.ts';
import type { Account } from '../../../../shared/store/accounts/account.ts';
import type { BatchJob } from '../../../../workers/batches/lines/batch-job.ts';
import type { LineEvent } from '../../../../workers/batches/lines/line-events.ts';
import { createAccountScheduler } from '../../../../workers/batches/scheduler/account-scheduler.ts';
import { createRecoverLostLines } from '../../../../workers/batches/scheduler/recover-lost-lines.ts';
import { batchOf, resultOf, retryOf } from '../../../shared/store/batch-records.ts';
import { type BatchSide, openBatchSide } from '../../../support/batch-side.ts';
import { openRedisDatabase, type RedisDatabase } from '../../../support/private-redis.ts';

let own: RedisDatabase;

test.before(async () => {
  own = await openRedisDatabase();
});

test.after.always(() => own?.[Symbol.asyncDispose]());
test.serial.beforeEach(() => own.redis.flushdb());

type Given = { suspended?: boolean; add?: (job: BatchJob) => Promise<void> | undefined };

/** The running batches of one account, fed by a worker; `queued` are the jobs that it has queued, in that order. */
function run(t: ExecutionContext, side: BatchSide, given: Given = {}) {
  const queued: BatchJob[] = [];
  let looksSoon = 0;
  const { store } = side;
  const known = { plan: 'free', suspended: given.suspended ?? false };
  const accountRun = createAccountScheduler({
    ...side,
    store: {
      batches: store.batches,
      files: store.files,
      findAccount: async () => known as Account, // all that is asked of it
    },
    queue: {
      async add(job) {
        await given.add?.(job);
        await side.queue.add(job);
        queued.push(job);
      },
    },
    recoverLostLines: createRecoverLostLines({ ...side, store: store.batches }),
    control: () => 'svc:control:here',
    lookSoon: () => void looksSoon++,
  });
  t.teardown(() => accountRun.stop());

  return {
    ...accountRun,
    known,
    queued,
    looksSoon: () => looksSoon,
    /** Looks as its keeper does, and waits until so many lines were queued in all. */
    async look(count = queued.length, ...others: Batch[]): Promise<void> {
      const batches = [await side.find(), ...others].filter(({ state }) => state === 'in_progress');
      await accountRun.look(batches, Date.now());
      while (queued.length < count) await sleep(5);
    },
    lookAt: (batches: readonly Batch[]) => accountRun.look(batches, Date.now()),
    lines: () => queued.map(({ line, number }) => (number === 1 ? line : `${line} again`)),
    /** What its worker does with a line that is answered. */
    async answer(line: number, number = 1): Promise<void> {
      await store.batches.insertResults([resultOf(side.batch.id, line)]);
      await side.queue.remove({ model: 'small-chat', requestId: side.requestOf(line, number) });
      accountRun.heard({ type: 'ended', answered: true, batch: side.batch.id, line, number });
    },
    heard: (event: Partial<LineEvent> & Pick<LineEvent, 'type'>) =>
      accountRun.heard({ batch: side.batch.id, line: 1, number: 1, ...event } as LineEvent), // whole by what each test gives
  };
}

test.serial('as many lines are queued as the account may have at once, and one more for each that ends', async (t) => {
  await using side = await openBatchSide(own.redis, { lines: 20 });
  const account = run(t, side);
  await account.look(8);
  await sleep(300);
  t.deepEqual(account.lines(), [1, 2, 3, 4, 5, 6, 7, 8]);
  await account.answer(3);
  while (account.queued.length < 9) await sleep(5);
  t.deepEqual(account.lines().slice(8), [9]);
  t.like(account.queued[0], {
    ...{ requestId: side.requestOf(1), account: side.account, batch: side.batch.id, line: 1, number: 1 },
    ...{ customId: 'line 1', plan: 'free', failures: 0, losses: 0, tellTo: 'svc:control:here' },
  });
  t.true((account.queued[0]?.tokens ?? 0) > 0);
});

test.serial('a batch whose every line has ended has been run, and is counted', async (t) => {
  await using side = await openBatchSide(own.redis, { lines: 3 });
  const account = run(t, side);
  await account.look(3);
  await account.answer(1);
  await account.look();
  t.like(await side.find(), { state: 'in_progress', counts: { completed: 1, failed: 0 }, position: { line: 2 } });
  await account.answer(2);
  await side.store.batches.insertResults([resultOf(side.batch.id, 3, { failed: true })]);
  account.heard({ type: 'ended', answered: false, line: 3 });
  while (account.looksSoon() === 0) await sleep(5); // the end of the file is found meanwhile
  await account.look();
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
  await account.look(8, other);
  const own8 = account.queued.filter(({ batch }) => batch === side.batch.id);
  t.deepEqual(
    own8.map(({ line }) => line),
    [1, 2, 3, 4],
  );
});

test.serial('a batch whose file cannot be read keeps no other from being run', async (t) => {
  await using side = await openBatchSide(own.redis, { lines: 4 });
  const lost = batchOf({ account: side.account, id: 'batch_0', counts: { total: 4, completed: 0, failed: 0 } });
  await side.store.batches.insertBatch(lost);
  const account = run(t, side);
  await account.lookAt([lost, await side.find()]);
  while (account.queued.length < 4) await sleep(5);
  t.deepEqual(account.lines(), [1, 2, 3, 4]);
});

test.serial(
  'whoever takes over queues what has no result, and what was tried before as its next request',
  async (t) => {
    await using side = await openBatchSide(own.redis, { lines: 6 });
    await side.store.batches.insertResults([1, 3].map((line) => resultOf(side.batch.id, line)));
    await side.store.batches.recordRetry(retryOf(side.batch.id, 5, { notBefore: new Date(0) }));
    await side.add(2);
    const account = run(t, side);
    await account.look(4);
    t.deepEqual(new Set(account.lines()), new Set([2, 4, 6, '5 again']));
    t.is(await jobsIn(side), 4, 'the one that was queued before is one');
  },
);

test.serial('a line that is to be run again is queued at its time, as its next request', async (t) => {
  await using side = await openBatchSide(own.redis, { lines: 1 });
  const account = run(t, side);
  await account.look(1);
  const retry = retryOf(side.batch.id, 1, { notBefore: new Date(Date.now() + 300) });
  await side.store.batches.recordRetry(retry);
  const heardAt = Date.now();
  account.heard({ type: 'retry', retry });
  while (account.queued.length < 2) await sleep(5);
  t.true(Date.now() - heardAt >= 295);
  t.deepEqual(account.lines(), [1, '1 again']);
  t.like(account.queued[1], { number: 2, failures: 1, requestId: side.requestOf(1, 2) });
});

test.serial('a line that was dropped is looked for at once, and run again if nothing came of it', async (t) => {
  await using side = await openBatchSide(own.redis, { lines: 1 });
  const account = run(t, side);
  await account.look(1);
  await side.queue.remove({ model: 'small-chat', requestId: side.requestOf(1) });
  await account.look();
  t.deepEqual(account.lines(), [1], 'it was heard of a moment ago');
  account.heard({ type: 'dropped' });
  await account.look(2);
  t.deepEqual(account.lines(), [1, '1 again']);
});

test.serial('news of a request that is not the line’s latest changes nothing', async (t) => {
  await using side = await openBatchSide(own.redis, { lines: 9 });
  const account = run(t, side);
  await account.look(8);
  account.heard({ type: 'ended', answered: true, number: 2 });
  account.heard({ type: 'ended', answered: true, line: 9 });
  account.heard({ type: 'ended', answered: true, batch: 'batch_another' });
  await sleep(300);
  t.is(account.queued.length, 8);
});

test.serial('the lines of an account that is suspended wait', async (t) => {
  await using side = await openBatchSide(own.redis);
  const account = run(t, side, { suspended: true });
  await account.look();
  await sleep(300);
  t.deepEqual(account.queued, []);
  account.known.suspended = false;
  await account.look(5);
  t.deepEqual(account.lines(), [1, 2, 3, 4, 5]);
});

test.serial('a line whose model is gone from the plan file ends with what is wrong with it', async (t) => {
  await using side = await openBatchSide(own.redis, { lines: 2, model: 'gone' });
  const account = run(t, side);
  await account.look();
  while ((await side.results()).length < 2) await sleep(5);
  t.like((await side.results())[0], {
    ...{
      customId: 'line 1',
      failed: true,
      error: { code: 'VALIDATION_ERROR', message: 'body.model: there is no such model' },
    },
  });
  // The last result is stored before its line has ended; reading SQLite and nothing else would leave no turn for that.
  while ((await side.find()).state === 'in_progress') {
    await sleep(5);
    await account.look();
  }
  t.is((await side.find()).state, 'finalizing');
});

test.serial(
  'a line that could not be queued is queued a little later, as the same request, and has lost nothing',
  async (t) => {
    await using side = await openBatchSide(own.redis, { lines: 2 });
    let failures = 4;
    const add = async ({ line }: BatchJob) => {
      if (line === 1 && failures-- > 0) throw new Error('OOM command not allowed');
    };
    const account = run(t, side, { add });
    await account.look(2);
    t.deepEqual(account.lines(), [2, 1]);
    t.deepEqual(await side.store.batches.listRetries(side.batch.id), []);
    t.is((await side.find()).position.line, 1);
  },
);

test.serial(
  'a batch that is taken for done, and has lines without a result, begins anew from what is stored',
  async (t) => {
    await using side = await openBatchSide(own.redis, { lines: 2 });
    const account = run(t, side);
    await account.look(2);
    await account.answer(1);
    await side.queue.remove({ model: 'small-chat', requestId: side.requestOf(2) });
    account.heard({ type: 'ended', answered: true, line: 2 }); // which is not true
    while (account.looksSoon() === 0) await sleep(5);
    await account.look();
    t.is((await side.find()).state, 'in_progress');
    await account.look();
    await account.look(3);
    t.deepEqual(account.lines(), [1, 2, 2]);
  },
);

test.serial('a batch that runs no more is let go, and what is queued stays', async (t) => {
  await using side = await openBatchSide(own.redis, { lines: 20 });
  const account = run(t, side);
  await account.look(8);
  await side.moveBatch({ state: 'cancelling' });
  await account.look();
  account.heard({ type: 'ended', answered: true });
  await sleep(300);
  t.is(account.queued.length, 8);
  t.is(await jobsIn(side), 8);
});

test.serial('one that was stopped queues nothing more', async (t) => {
  await using side = await openBatchSide(own.redis, { lines: 20 });
  const account = run(t, side);
  await account.look(8);
  await account.stop();
  for (let line = 1; line <= 8; line++) account.heard({ type: 'ended', answered: true, line });
  await sleep(300);
  t.is(account.queued.length, 8);
});

function jobsIn(side: BatchSide): Promise<number> {
  const lines = [1, 2].flatMap((number) =>
    Array.from({ length: 20 }, (_, index) => ({ model: 'small-chat', requestId: side.requestOf(index + 1, number) })),
  );
  return side.queue.remaining(lines).then(({ size }) => size);
}
