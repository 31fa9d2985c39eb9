import test from 'ava';
import { Registry } from 'prom-client';
import { storeUnavailable } from '../../../shared/store/documents/store-errors.ts';
import { createWorkerMetrics } from '../../../workers/metrics.ts';
import { createFailureBackoff } from '../../../workers/upkeep/repeat-task.ts';
import { createDrainHeld, type DrainReport } from '../../../workers/usage/drain-partition.ts';
import { createTrimSchedule } from '../../../workers/usage/outbox.ts';
import { recordedLog } from '../../support/recorded-log.ts';

function drainer(drainPartition: (partition: number) => Promise<DrainReport>) {
  let time = 0;
  const now = () => time;
  const { log, lines } = recordedLog();
  const metrics = createWorkerMetrics(new Registry());
  const trimmed: [number, string][] = [];
  const asked: number[] = [];
  const drainHeld = createDrainHeld({
    drainPartition: async (partition) => {
      asked.push(partition);
      return drainPartition(partition);
    },
    trimOutbox: async (partition, id) => void trimmed.push([partition, id]),
    schedule: createTrimSchedule({ afterMs: 10_000, now }),
    backoff: createFailureBackoff({ now, random: () => 1 }),
    metrics,
    log,
  });
  return {
    trimmed,
    metrics,
    /** The partitions drained in this round, and the log lines of it. */
    async round(held: readonly number[], signal = new AbortController().signal) {
      asked.length = 0;
      lines.length = 0;
      const { more, failed } = await drainHeld(held, signal);
      return {
        left: { more, failed: failed.toSorted((a, b) => a - b) },
        asked: asked.toSorted((a, b) => a - b),
        said: lines.map(({ level, message }) => [level, message]),
      };
    },
    pass(ms: number) {
      time += ms;
    },
  };
}

const partitions = Array.from({ length: 20 }, (_, partition) => partition);
const noneLeft = { more: [], failed: [] };
const nothing: DrainReport = { upTo: '0-0', records: 0, more: false };

test('drains each partition once, a few at a time, and returns those with more', async (t) => {
  let [atOnce, most] = [0, 0];
  const { round } = drainer(async (partition) => {
    most = Math.max(most, ++atOnce);
    await new Promise((resolve) => setImmediate(resolve));
    atOnce -= 1;
    return { ...nothing, more: partition === 5 };
  });
  t.deepEqual(await round(partitions), { left: { more: [5], failed: [] }, asked: partitions, said: [] });
  t.is(most, 4);
  t.deepEqual(await round([3, 4]), { left: noneLeft, asked: [3, 4], said: [] });
  t.deepEqual(await round([]), { left: noneLeft, asked: [], said: [] });
  t.deepEqual(await round(partitions, AbortSignal.abort()), { left: noneLeft, asked: [], said: [] });
});

test('trims entries that another worker drained after ten seconds, and a failure does not delay other partitions', async (t) => {
  let broken = true;
  const { round, trimmed, pass } = drainer(async (partition) => {
    if (partition === 3 && broken) throw new Error('no stream');
    return { upTo: '5-7', records: 0, more: false };
  });
  const said = [['error', 'usage of a partition cannot be drained; trying again']];
  t.deepEqual(await round([1, 3]), { left: { more: [], failed: [3] }, asked: [1, 3], said });
  pass(10_000);
  broken = false;
  t.deepEqual(await round([1, 3]), { left: noneLeft, asked: [1, 3], said: [] });
  t.deepEqual(trimmed, [[1, '5-7']]);
  broken = true;
  t.deepEqual((await round([1, 3])).said, said, 'the partition worked in between');
});

test('trims an entry ten seconds after it was seen to be drained, and not before', async (t) => {
  const { round, trimmed, pass } = drainer(async () => ({ upTo: '5-7', records: 1, more: false }));
  await round([1]);
  pass(9_999);
  await round([1, 2]);
  t.deepEqual(trimmed, []);
  pass(1);
  await round([1, 2]);
  t.deepEqual(trimmed, [[1, '5-7']]);
  pass(9_999);
  await round([1, 2]);
  t.deepEqual(trimmed.slice(1), [[2, '5-7']]);
});

test('all partitions back off while the store is unavailable, and each change is logged once', async (t) => {
  let away = true;
  const { round, pass, metrics } = drainer(async (partition) => {
    if (partition === 3) return nothing;
    if (away) throw storeUnavailable(new Error('gone'));
    return { upTo: '5-7', records: 1, more: false };
  });
  const first = await round(partitions);
  t.deepEqual(first.said, [['warn', 'the store is unavailable; usage waits in the outbox']]);
  t.true(first.asked.length <= 4, 'those that were in progress');
  t.deepEqual(await round(partitions), { left: { more: [], failed: partitions }, asked: [], said: [] });
  for (let time = 0; time < 20_000; time += 1_000) {
    pass(1_000);
    t.deepEqual((await round(partitions)).said, []);
  }
  away = false;
  pass(5_000);
  t.deepEqual(
    await round([3]),
    { left: noneLeft, asked: [3], said: [] },
    'nothing was written: the store may still be unavailable',
  );
  t.deepEqual(await round(partitions), {
    left: noneLeft,
    asked: partitions,
    said: [['info', 'the store is available again; usage is drained']],
  });
  t.true(((await metrics.usageDrainFailures.get()).values[0]?.value ?? 0) > 4);
});

test('a failing partition does not delay others', async (t) => {
  let broken = true;
  const { round, pass } = drainer(async (partition) => {
    if (partition === 7 && broken) throw new Error('a document of another shape');
    return nothing;
  });
  const said = [['error', 'usage of a partition cannot be drained; trying again']];
  t.deepEqual(await round(partitions), { left: { more: [], failed: [7] }, asked: partitions, said });
  const others = partitions.filter((partition) => partition !== 7);
  t.deepEqual(await round(partitions), { left: { more: [], failed: [7] }, asked: others, said: [] });
  pass(5_000);
  t.deepEqual(await round(partitions), { left: { more: [], failed: [7] }, asked: partitions, said: [] });
  broken = false;
  pass(5_000);
  t.deepEqual(await round(partitions), { left: noneLeft, asked: partitions, said: [] });
  broken = true;
  t.deepEqual((await round(partitions)).said, said, 'the partition worked in between');
});
