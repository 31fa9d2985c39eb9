import test from 'ava';
import { validationError } from '../../../shared/errors.ts';
import { type AccountState, initialAccountState } from '../../../workers/batches/account-state.ts';
import type { BatchFeed, RefusedNextLine } from '../../../workers/batches/files/batch-feed.ts';
import { createQueueLines } from '../../../workers/batches/queue-lines.ts';
import { createBackoff } from '../../../workers/upkeep/backoff.ts';
import { batchOf } from '../../shared/store/batch-records.ts';
import { batchPlan } from '../../support/batch-plan.ts';
import { recordedLog } from '../../support/recorded-log.ts';

test('the pause of a batch grows while its refused lines cannot be ended, also if many fail together', async (t) => {
  const batch = batchOf({ account: 'user:alice' });
  const state: AccountState = {
    ...initialAccountState,
    plan: { name: 'free', suspended: false },
    batches: new Map([[batch.id, { batch, isUncounted: false, lines: new Map() }]]),
  };
  let line = 0;
  const refused = validationError([{ path: 'model', message: 'there is no such model' }]);
  const waiting = new Set<number>();
  const ended = new Set<number>();
  const nextOf = (line: number) =>
    ({ line, customId: '', requestId: '', model: '', refused }) as unknown as RefusedNextLine; // all that is read
  const feed: Partial<BatchFeed> = {
    async next() {
      const [again] = waiting;
      if (again !== undefined) waiting.delete(again);
      return again !== undefined ? nextOf(again) : line < 200 ? nextOf(++line) : undefined;
    },
  };
  let [now, writable] = [0, false];
  const { log, lines } = recordedLog();
  const queueLines = createQueueLines({
    account: batch.account,
    state: () => state,
    async dispatch(event) {
      if (event.type === 'not queued') waiting.add(event.line.line);
      if (event.type === 'rejected') ended.add(event.line);
    },
    feeds: new Map([[batch.id, feed as BatchFeed]]), // its only function that is called
    backoff: createBackoff({ firstMs: 500, maxMs: 60_000, random: () => 1, now: () => now }),
    currentPlanFile: batchPlan,
    queue: { add: async () => t.fail('a refused line is not queued') },
    writeResult: async (result) => {
      if (!writable) throw new Error('the disk is full');
      return result;
    },
    release: async () => 'ended',
    control: 'svc:control:here',
    signal: new AbortController().signal,
    log,
  });
  const failedAt: number[] = [];
  const runUntil = async (end: number) => {
    for (; now < end; now += 250) {
      const warned = lines.length;
      await queueLines();
      if (lines.length > warned) failedAt.push(now);
    }
  };
  await runUntil(20_000);
  t.deepEqual(failedAt, [0, 500, 1_500, 3_500, 7_500, 15_500]);
  t.is(lines.length, failedAt.length, 'one warning for all lines that fail together');
  t.is(ended.size, 0);
  writable = true;
  await runUntil(40_000);
  t.is(ended.size, 200, 'every line was tried again');
});
