import { setTimeout as sleep } from 'node:timers/promises';
import test, { type ExecutionContext } from 'ava';
import type { Batch, BatchEnding } from '../../../../shared/batches/batch.ts';
import { watchBatches } from '../../../../workers/batches/lines/watch-batches.ts';
import { batchOf } from '../../../shared/store/batch-records.ts';
import { recordedLog } from '../../../support/recorded-log.ts';

function open(t: ExecutionContext, graceMs = 0) {
  const state: { batch: Batch | undefined; isAway: boolean; looks: number } = {
    ...{ batch: batchOf(), isAway: false, looks: 0 },
  };
  const findBatch = async () => {
    state.looks++;
    if (state.isAway) throw new Error('away');
    return state.batch;
  };
  const watch = watchBatches({ store: { findBatch }, log: recordedLog().log, everyMs: 5, graceMs });
  t.teardown(() => watch[Symbol.dispose]());
  /** Follows a batch; resolves with how it has ended. */
  function follow(id = 'batch_1') {
    const ended = Promise.withResolvers<BatchEnding>();
    const endings: BatchEnding[] = [];
    const unfollow = watch.follow(id, (ending) => {
      endings.push(ending);
      ended.resolve(ending);
    });
    return { ended: ended.promise, endings, unfollow };
  }
  async function looks(more: number): Promise<void> {
    const until = state.looks + more;
    while (state.looks < until) await sleep(2);
  }
  return { state, follow, looks };
}

test('a line is told how its batch has ended, and not while it runs', async (t) => {
  const { state, follow, looks } = open(t);
  const line = follow();
  await looks(3);
  t.deepEqual(line.endings, []);
  state.batch = batchOf({ state: 'finalizing', ending: 'expired' });
  t.is(await line.ended, 'expired');
});

test('a batch that is gone counts as cancelled', async (t) => {
  const { state, follow } = open(t);
  state.batch = undefined;
  t.is(await follow().ended, 'cancelled');
});

test('lines have time to end by themselves', async (t) => {
  const { state, follow, looks } = open(t, 200);
  state.batch = batchOf({ state: 'cancelling', ending: 'cancelled' });
  const line = follow();
  const since = performance.now();
  await looks(3);
  t.deepEqual(line.endings, []);
  t.is(await line.ended, 'cancelled');
  t.true(performance.now() - since >= 190);
});

test('all lines of a batch are one call, and each is told', async (t) => {
  const { state, follow, looks } = open(t);
  const lines = [follow(), follow(), follow()];
  await looks(3);
  const before = state.looks;
  await sleep(30);
  t.true(state.looks - before <= 10, 'one call each time');
  state.batch = batchOf({ state: 'cancelling', ending: 'cancelled' });
  t.deepEqual(await Promise.all(lines.map(({ ended }) => ended)), ['cancelled', 'cancelled', 'cancelled']);
});

test('a line that follows no more is not told, and where none does nobody looks', async (t) => {
  const { state, follow, looks } = open(t);
  const [one, other] = [follow(), follow()];
  one.unfollow();
  state.batch = batchOf({ state: 'cancelling', ending: 'cancelled' });
  await other.ended;
  t.deepEqual(one.endings, []);
  other.unfollow();
  other.unfollow();
  await sleep(10);
  const before = state.looks;
  await sleep(30);
  t.is(state.looks, before);
  const later = follow();
  await looks(1);
  t.is(await later.ended, 'cancelled');
});

test('while it is not known how a batch stands, its lines go on', async (t) => {
  const { state, follow, looks } = open(t);
  state.isAway = true;
  state.batch = batchOf({ state: 'cancelling', ending: 'cancelled' });
  const line = follow();
  await looks(3);
  t.deepEqual(line.endings, []);
  state.isAway = false;
  t.is(await line.ended, 'cancelled');
});
