import { setTimeout as sleep } from 'node:timers/promises';
import test, { type ExecutionContext } from 'ava';
import type { Batch, BatchEnding } from '../../../../shared/batches/batch.ts';
import { watchBatches } from '../../../../workers/batches/lines/watch-batches.ts';
import { batchOf } from '../../../shared/store/batch-records.ts';
import { recordedLog } from '../../../support/recorded-log.ts';

function open(t: ExecutionContext, graceMs = 0) {
  const state: { batch: Batch | undefined; isUnavailable: boolean; checked: string[]; now: number } = {
    ...{ batch: batchOf(), isUnavailable: false, checked: [], now: 0 },
  };
  const findBatch = async (id: string) => {
    state.checked.push(id);
    if (state.isUnavailable) throw new Error('away');
    return state.batch;
  };
  const now = () => state.now;
  const watch = watchBatches({ store: { findBatch }, log: recordedLog().log, everyMs: 5, graceMs, now });
  t.teardown(() => watch[Symbol.dispose]());
  /** Follows a batch. `ended` resolves with its ending. */
  function follow(id = 'batch_1') {
    const ended = Promise.withResolvers<BatchEnding>();
    const endings: BatchEnding[] = [];
    const unfollow = watch.follow(id, (ending) => {
      endings.push(ending);
      ended.resolve(ending);
    });
    return { ended: ended.promise, endings, unfollow };
  }
  async function checks(more: number): Promise<void> {
    const until = state.checked.length + more;
    while (state.checked.length < until) await sleep(2);
  }
  return { state, follow, checks };
}

test('a line is notified of its batch’s ending, and not while the batch runs', async (t) => {
  const { state, follow, checks } = open(t);
  const line = follow();
  await checks(3);
  t.deepEqual(line.endings, []);
  state.batch = batchOf({ state: 'finalizing', ending: 'expired' });
  t.is(await line.ended, 'expired');
});

test('a batch that is gone counts as cancelled', async (t) => {
  const { state, follow } = open(t);
  state.batch = undefined;
  t.is(await follow().ended, 'cancelled');
});

test('lines have time to end before they are stopped', async (t) => {
  const { state, follow, checks } = open(t, 200);
  state.batch = batchOf({ state: 'cancelling', ending: 'cancelled' });
  const line = follow();
  await checks(3);
  state.now = 199;
  await checks(3);
  t.deepEqual(line.endings, []);
  state.now = 200;
  t.is(await line.ended, 'cancelled');
});

test('all lines of a batch cause one call, and each is notified', async (t) => {
  const { state, follow, checks } = open(t);
  const lines = [follow(), follow(), follow()];
  follow('batch_2');
  await checks(3);
  state.checked = [];
  await checks(6);
  const [first, second] = ['batch_1', 'batch_2'].map((id) => state.checked.filter((each) => each === id).length);
  t.true(Math.abs((first ?? 0) - (second ?? 0)) <= 1, 'one call for each check');
  state.batch = batchOf({ state: 'cancelling', ending: 'cancelled' });
  t.deepEqual(await Promise.all(lines.map(({ ended }) => ended)), ['cancelled', 'cancelled', 'cancelled']);
});

test('a line that ended the watch is not notified, and without lines no batch is read', async (t) => {
  const { state, follow, checks } = open(t);
  const [one, other] = [follow(), follow()];
  one.unfollow();
  state.batch = batchOf({ state: 'cancelling', ending: 'cancelled' });
  await other.ended;
  t.deepEqual(one.endings, []);
  other.unfollow();
  other.unfollow();
  await sleep(10);
  const before = state.checked.length;
  await sleep(30);
  t.is(state.checked.length, before);
  const later = follow();
  await checks(1);
  t.is(await later.ended, 'cancelled');
});

test('lines continue while their batch cannot be read', async (t) => {
  const { state, follow, checks } = open(t);
  state.isUnavailable = true;
  state.batch = batchOf({ state: 'cancelling', ending: 'cancelled' });
  const line = follow();
  await checks(3);
  t.deepEqual(line.endings, []);
  state.isUnavailable = false;
  t.is(await line.ended, 'cancelled');
});
