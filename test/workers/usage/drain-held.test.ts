import test from 'ava';
import { Registry } from 'prom-client';
import { storeUnavailable } from '../../../shared/store/adapters/store-errors.ts';
import { createWorkerMetrics } from '../../../workers/metrics.ts';
import { createDrainHeld } from '../../../workers/usage/drain-held.ts';
import type { Drained } from '../../../workers/usage/drain-partition.ts';
import { createFailureBackoff } from '../../../workers/usage/failure-backoff.ts';
import { createTrimSchedule } from '../../../workers/usage/trim-schedule.ts';
import { recordedLog } from '../../support/recorded-log.ts';

function drainer(drainPartition: (partition: number) => Promise<Drained>) {
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
    /** Which partitions were asked for in this round, and what the log said of it. */
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
const nothing: Drained = { upTo: '0-0', records: 0, more: false };

test('each partition is drained once, a few at a time, and what is left over is said', async (t) => {
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

test('what another has drained is trimmed ten seconds later, too, and a failure does not delay other partitions', async (t) => {
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
  t.deepEqual((await round([1, 3])).said, said, 'it had worked in between');
});

test('an entry is trimmed ten seconds after it was seen to be drained, and not before', async (t) => {
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

test('a store that is away is left alone for a while, by all partitions, and spoken of once each way', async (t) => {
  let away = true;
  const { round, pass, metrics } = drainer(async (partition) => {
    if (partition === 3) return nothing;
    if (away) throw storeUnavailable(new Error('gone'));
    return { upTo: '5-7', records: 1, more: false };
  });
  const first = await round(partitions);
  t.deepEqual(first.said, [['warn', 'the store is away; usage waits in the outbox']]);
  t.true(first.asked.length <= 4, 'those that were under way');
  t.deepEqual(await round(partitions), { left: { more: [], failed: partitions }, asked: [], said: [] });
  for (let time = 0; time < 20_000; time += 1_000) {
    pass(1_000);
    t.deepEqual((await round(partitions)).said, []);
  }
  away = false;
  pass(5_000);
  t.deepEqual(await round([3]), { left: noneLeft, asked: [3], said: [] }, 'nothing was written: it may still be away');
  t.deepEqual(await round(partitions), {
    left: noneLeft,
    asked: partitions,
    said: [['info', 'the store is back; usage is drained again']],
  });
  t.true(((await metrics.usageDrainFailures.get()).values[0]?.value ?? 0) > 4);
});

test('a partition that fails by itself keeps back no other', async (t) => {
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
  t.deepEqual((await round(partitions)).said, said, 'it had worked in between');
});
