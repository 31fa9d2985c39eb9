import { setTimeout as sleep } from 'node:timers/promises';
import type { ExecutionContext } from 'ava';
import test from 'ava';
import type { Batch } from '../../../shared/batches/batch.ts';
import { enterRoom, newRoomEntry } from '../../../shared/batches/batch-room.ts';
import { aborted } from '../../../shared/concurrency/shutdown.ts';
import { batchLockKey } from '../../../shared/redis/keys.ts';
import { superviseBatches } from '../../../workers/batches/batch-supervisor.ts';
import { createClearBatch, createCloseBatch } from '../../../workers/batches/files/close-batch.ts';
import { createValidateBatch } from '../../../workers/batches/files/validate-batch.ts';
import { createWriteBatchFiles } from '../../../workers/batches/files/write-batch-files.ts';
import { createAcquireLock, createReleaseLock } from '../../../workers/upkeep/locks.ts';
import { batchOf, resultOf } from '../../shared/store/batch-records.ts';
import { type BatchSide, openBatchSide } from '../../support/batch-side.ts';
import { openRedisDatabase, type RedisDatabase } from '../../support/private-redis.ts';

let own: RedisDatabase;

test.before(async () => {
  own = await openRedisDatabase();
});

test.after.always(() => own?.[Symbol.asyncDispose]());
test.serial.beforeEach(() => own.redis.flushdb());

type Run = { account: string; refreshes: string[][]; isStopped: boolean; refreshSoon: () => void };

/** A worker that supervises the batches of this account, unless another holds it. It only records which batches it refreshes. */
function supervise(
  t: ExecutionContext,
  side: BatchSide,
  workerId: string,
  options: {
    isAlwaysHeld?: boolean;
    pause?: (ms: number, signal: AbortSignal) => Promise<void>;
    stop?: () => Promise<void>;
    onHold?: () => void;
  } = {},
) {
  const runs: Run[] = [];
  const { store, rules } = side;
  const received: unknown[] = [];
  const acquireLock = createAcquireLock(own.redis, { workerId, holdMs: 60_000 });
  const supervisor = superviseBatches({
    ...{ store: store.batches, log: side.log, refreshEveryMs: 5, ...(options.pause && { pause: options.pause }) },
    acquireLock: async (key) => {
      options.onHold?.();
      return options.isAlwaysHeld || acquireLock(key);
    },
    releaseLock: createReleaseLock(own.redis, { workerId }),
    createAccountScheduler(account, refreshSoon) {
      const run: Run = { account, refreshes: [], isStopped: false, refreshSoon };
      runs.push(run);
      return {
        refresh: async (running) => void run.refreshes.push(running.map(({ id }) => id)),
        receive: (event) => void received.push(event),
        stop: async () => {
          run.isStopped = true;
          await options.stop?.();
        },
      };
    },
    validateBatch: createValidateBatch({ store, currentPlanFile: side.currentPlanFile, rules, metrics: side.metrics }),
    closeBatch: createCloseBatch(side),
    writeBatchFiles: createWriteBatchFiles({ store, filesKeptDays: () => 30 }),
    clearBatch: createClearBatch({ ...side, store }),
    metrics: side.metrics,
    now: async () => Date.now(),
  });
  t.teardown(() => supervisor[Symbol.asyncDispose]());
  supervisor.take([side.account]);
  return { supervisor, runs, received };
}

async function until<Found>(find: () => Promise<Found | undefined> | Found | undefined): Promise<Found> {
  for (;;) {
    const found = await find();
    if (found !== undefined) return found;
    await sleep(5);
  }
}

const inState = (side: BatchSide, state: Batch['state']) =>
  until(async () => {
    const found = await side.find();
    return found.state === state ? found : undefined;
  });

test.serial('a batch that was submitted is validated, and then its lines run', async (t) => {
  await using side = await openBatchSide(own.redis, {
    state: 'validating',
    expiresAt: new Date(Date.now() + 3_600_000),
  });
  const { runs } = supervise(t, side, 'one');
  t.like(await inState(side, 'in_progress'), { counts: { total: 5 } });
  await until(() => runs[0]?.refreshes.find((refreshed) => refreshed.includes(side.batch.id)));
  t.is(runs[0]?.account, side.account);
});

/** How often the duration of a batch was observed, by final state. */
async function durations({ metrics }: BatchSide): Promise<string[]> {
  const { values } = await metrics.batchDuration.get();
  return values
    .filter(({ metricName }) => metricName?.endsWith('_count'))
    .map(({ labels, value }) => `${labels.state} ${value}`);
}

test.serial('a batch whose file has faults fails, runs no line, and is cleaned up', async (t) => {
  await using side = await openBatchSide(own.redis, { state: 'validating', method: 'GET' });
  const { runs } = supervise(t, side, 'one');
  const batch = await until(async () => {
    const found = await side.find();
    return found.open ? undefined : found;
  });
  t.deepEqual(await durations(side), ['failed 1']);
  t.like(batch, { state: 'failed', errors: { 0: { code: 'invalid_method', line: 1 }, length: 5 } });
  t.deepEqual(
    runs.flatMap(({ refreshes }) => refreshes.flat()),
    [],
  );
});

test.serial('a batch whose window is over ends as expired, with its files, and leaves no results behind', async (t) => {
  await using side = await openBatchSide(own.redis, { expiresAt: new Date(Date.now() - 1) });
  await side.store.batches.insertResults([resultOf(side.batch.id, 2)]);
  supervise(t, side, 'one');
  const batch = await until(async () => {
    const found = await side.find();
    return found.open ? undefined : found;
  });
  t.like(batch, { state: 'expired', ending: 'expired', counts: { total: 5, completed: 1, failed: 4 } });
  t.is((await side.read(batch.outputFile)).split('\n').length, 2);
  t.is((await side.read(batch.errorFile)).split('\n').length, 5);
  t.deepEqual(await side.results(), []);
});

test.serial('a batch that was cancelled during validation ends without a file', async (t) => {
  await using side = await openBatchSide(own.redis, {
    state: 'cancelling',
    ending: 'cancelled',
    inProgressAt: undefined,
  } as Partial<Batch>);
  supervise(t, side, 'one');
  const batch = await inState(side, 'cancelled');
  t.is(batch.outputFile, undefined);
  t.is(batch.errorFile, undefined);
});

test.serial(
  'a batch leaves the room of its account when it ends, or when it is cleared if the process died before that',
  async (t) => {
    const limits = { batchesMax: 100, filesMax: 100, bytesMax: 1e9, tokensMax: undefined };
    for (const [state, change] of [
      ['ends', { expiresAt: new Date(Date.now() - 1) }],
      ['fails', { state: 'validating', inProgressAt: undefined }],
      ['has ended', { state: 'completed', ending: 'completed' }],
    ] as const) {
      await using side = await openBatchSide(own.redis, { method: 'GET', ...change } as Parameters<
        typeof openBatchSide
      >[1]);
      const { store, account, batch } = side;
      const entry = newRoomEntry({ lines: 5, tokens: 1, since: new Date() });
      for (const id of [batch.id, 'batch_other']) await store.batches.changeRoom(account, enterRoom(id, entry, limits));
      // Jobs of its lines exist, so it is not cleared yet.
      const clearBatch = { ...side.queue, remaining: async () => new Set(['a job']) };
      supervise(t, { ...side, queue: state === 'has ended' ? clearBatch : side.queue } as BatchSide, 'one');
      const left = await until(async () => {
        const { entries } = await store.batches.findRoom(account);
        return batch.id in entries ? undefined : Object.keys(entries);
      });
      t.deepEqual(left, ['batch_other'], state);
    }
  },
);

test.serial('two workers that run one account at once have the effect of one, at every step', async (t) => {
  await using side = await openBatchSide(own.redis, {
    state: 'validating',
    lines: 60,
    expiresAt: new Date(Date.now() + 60_000),
  });
  const states: string[] = [];
  const { changeBatch } = side.store.batches;
  side.store.batches.changeBatch = (id, decide) =>
    changeBatch.call(side.store.batches, id, (found) => {
      const decided = decide(found);
      if (decided.next !== undefined) states.push(`${found?.state} to ${decided.next.state}`);
      return decided as never; // the type depends on the caller
    }) as never;
  for (const worker of ['one', 'other']) supervise(t, side, worker, { isAlwaysHeld: true });
  await inState(side, 'in_progress');
  await side.moveBatch({ expiresAt: new Date(0) });
  const batch = await until(async () => {
    const found = await side.find();
    return found.open ? undefined : found;
  });
  t.like(batch, { state: 'expired', counts: { total: 60, completed: 0, failed: 60 } });
  const moves = states.filter((move) => new Set(move.split(' to ')).size === 2);
  t.deepEqual([...new Set(moves)], ['validating to in_progress', 'in_progress to finalizing', 'finalizing to expired']);
  t.is((await side.read(batch.errorFile)).split('\n').length, 61);
  t.deepEqual(await durations(side), ['expired 1'], 'its duration is observed once, at its end');
});

test.serial(
  'an account is held by one worker, and after that worker leaves, by the next one that it is assigned to',
  async (t) => {
    await using side = await openBatchSide(own.redis, { expiresAt: new Date(Date.now() + 3_600_000) });
    const one = supervise(t, side, 'one');
    await until(() => one.runs[0]?.refreshes[0]);
    const other = supervise(t, side, 'other');
    await sleep(50);
    t.is(other.runs.length, 0);
    await one.supervisor[Symbol.asyncDispose]();
    t.true(one.runs[0]?.isStopped);
    other.supervisor.take([side.account]);
    await until(() => other.runs[0]?.refreshes[0]);
    t.is(await own.redis.get(batchLockKey(side.account)), 'other');
    one.supervisor.take([side.account]);
    await other.supervisor[Symbol.asyncDispose]();
    t.is(one.runs.length, 1, 'a worker that has left takes no account');
  },
);

test.serial('an account that is assigned twice at once has one scheduler', async (t) => {
  await using side = await openBatchSide(own.redis, { expiresAt: new Date(Date.now() + 3_600_000) });
  const { supervisor, runs } = supervise(t, side, 'one');
  supervisor.take([side.account, side.account]);
  await until(() => runs[0]?.refreshes[1]);
  supervisor.take([side.account]);
  await until(() => runs[0]?.refreshes[3]);
  t.is(runs.length, 1);
});

test.serial(
  'an account that is taken during a refresh is not released because that refresh lists no batch of it',
  async (t) => {
    await using side = await openBatchSide(own.redis, { expiresAt: new Date(Date.now() + 3_600_000) });
    const { batches } = side.store;
    const { listOpenBatches } = batches;
    const asked = Promise.withResolvers<void>();
    const answered = Promise.withResolvers<void>();
    const { supervisor, runs } = supervise(t, side, 'one');
    await until(() => runs[0]?.refreshes[0]);
    batches.listOpenBatches = async (accounts) => {
      asked.resolve();
      await answered.promise;
      return listOpenBatches(accounts);
    };
    await asked.promise;
    await side.store.batches.insertBatch(batchOf({ account: 'user:later', expiresAt: new Date(Date.now() + 60_000) }));
    supervisor.take(['user:later']);
    const later = await until(() => runs.find(({ account }) => account === 'user:later'));
    answered.resolve();
    await until(() => later.refreshes[0]);
    t.false(later.isStopped);
  },
);

test.serial('a worker that holds no account does not query the store', async (t) => {
  await using side = await openBatchSide(own.redis, { expiresAt: new Date(Date.now() + 3_600_000) });
  await own.redis.set(batchLockKey(side.account), 'another');
  side.store.batches.listOpenBatches = async () => t.fail() as never; // it is not called
  let pauses = 0;
  supervise(t, side, 'one', { pause: (ms) => sleep(Math.min(ms, ++pauses)) });
  await until(() => pauses > 20 || undefined);
  t.deepEqual(side.logged, []);
});

test.serial('a worker that lost its lock stops the account, and leaves the lock of the other worker', async (t) => {
  await using side = await openBatchSide(own.redis, { expiresAt: new Date(Date.now() + 3_600_000) });
  const { runs } = supervise(t, side, 'one');
  await until(() => runs[0]?.refreshes[0]);
  await own.redis.set(batchLockKey(side.account), 'another');
  await until(() => runs[0]?.isStopped || undefined);
  const refreshes = runs[0]?.refreshes.length;
  await sleep(50);
  t.is(runs[0]?.refreshes.length, refreshes);
  t.is(runs.length, 1);
  t.is(await own.redis.get(batchLockKey(side.account)), 'another');
});

test.serial('locks are renewed also while an account whose lock was lost is still stopping', async (t) => {
  await using side = await openBatchSide(own.redis, { expiresAt: new Date(Date.now() + 3_600_000) });
  let renewals = 0;
  const ended = Promise.withResolvers<void>();
  const { runs } = supervise(t, side, 'one', { stop: () => ended.promise, onHold: () => renewals++ });
  await until(() => runs[0]?.refreshes[0]);
  await own.redis.set(batchLockKey(side.account), 'another');
  await until(() => runs[0]?.isStopped || undefined);
  const before = renewals;
  await until(() => renewals > before + 1 || undefined);
  ended.resolve();
  t.pass();
});

test.serial('an account without an open batch is released', async (t) => {
  await using side = await openBatchSide(own.redis, { expiresAt: new Date(Date.now() + 3_600_000) });
  const { runs } = supervise(t, side, 'one');
  await until(() => runs[0]?.refreshes[0]);
  await side.moveBatch({ open: false });
  await until(() => runs[0]?.isStopped || undefined);
  t.is(await own.redis.exists(batchLockKey(side.account)), 0);
});

test.serial('an unavailable store and a failed step are tried again', async (t) => {
  await using side = await openBatchSide(own.redis, {
    state: 'validating',
    expiresAt: new Date(Date.now() + 3_600_000),
  });
  const { batches, files } = side.store;
  const [{ listOpenBatches }, { read }] = [batches, files];
  batches.listOpenBatches = async () => {
    batches.listOpenBatches = listOpenBatches;
    throw new Error('unavailable');
  };
  files.read = async () => {
    files.read = read;
    throw new Error('unavailable');
  };
  supervise(t, side, 'one');
  await inState(side, 'in_progress');
  t.is(side.logged.filter(({ level }) => level === 'warn').length, 2);
});

test.serial('events reach the scheduler of each account', async (t) => {
  await using side = await openBatchSide(own.redis, { expiresAt: new Date(Date.now() + 3_600_000) });
  const { supervisor, runs, received } = supervise(t, side, 'one');
  await until(() => runs[0]?.refreshes[0]);
  const event = { type: 'started', batch: side.batch.id, line: 1, number: 1 } as const;
  supervisor.receive(event);
  t.deepEqual(received, [event]);
});

test.serial('an account is refreshed before the pause ends only if its scheduler requests it', async (t) => {
  t.timeout(60_000);
  await using side = await openBatchSide(own.redis, { expiresAt: new Date(Date.now() + 3_600_000) });
  const pauses = Array.from({ length: 3 }, () => Promise.withResolvers<void>());
  let paused = 0;
  const pause = async (_ms: number, signal: AbortSignal) => {
    pauses[paused++]?.resolve();
    await aborted(signal);
  };
  const { runs } = supervise(t, side, 'one', { pause });
  await pauses[1]?.promise; // the first one ends when the account is taken
  t.is(runs[0]?.refreshes.length, 1);
  runs[0]?.refreshSoon();
  await pauses[2]?.promise;
  t.is(runs[0]?.refreshes.length, 2);
  t.is(paused, 3);
});
