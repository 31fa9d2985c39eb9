import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test from 'ava';
import { queuePrefix } from '../../../shared/redis/keys.ts';
import { startRedisCluster } from '../../stack/redis-cluster.ts';
import { sampleRun } from '../../support/sample-runs.ts';
import { compare } from '../comparison/compare.ts';
import { clusterLines } from '../comparison/documents.ts';
import { modelName } from '../gateways/gateway.ts';
import { startModelServer } from '../gateways/places.ts';
import { clusterLoads, clusterModels, clusterRows } from './run-cluster.ts';

async function openFolder(parts: AsyncDisposableStack): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'inference-bench-'));
  parts.defer(() => rm(directory, { recursive: true, force: true }));
  return directory;
}

test('each of the three masters has the queue of a measured model', async (t) => {
  await using parts = new AsyncDisposableStack();
  const cluster = parts.use(await startRedisCluster({ directory: await openFolder(parts), replicasEach: 0 }));
  const holders = await Promise.all(clusterModels.map((model) => cluster.holderOf(queuePrefix(model))));
  t.is(new Set(holders).size, 3);
  t.is(clusterModels[0], modelName, 'the model of the load with one');
});

test('with one Redis and with a cluster, every model is called, and nothing is lost, duplicated or over-admitted', async (t) => {
  t.timeout(120_000);
  await using parts = new AsyncDisposableStack();
  const directory = await openFolder(parts);
  const modelServer = parts.use(await startModelServer(directory));
  const short = { rounds: 1, seconds: 1, firstWarmUpSeconds: 1, warmUpSeconds: 1 };
  const loads = clusterLoads.filter(({ models }) => models !== undefined);
  const options = { directory, modelServer, peers: directory, withPeers: false, ...short };
  const { runs, warmUps } = await compare({ ...options, rows: clusterRows, loads });
  t.deepEqual(runs.map(({ row }) => row).toSorted(), ['one Redis', 'three masters']);
  for (const { row, answered, failed, books, cpuMicros } of runs) {
    t.true(answered > 0, row);
    t.is(failed, 0, `${row}: a model that does not exist would be refused`);
    t.deepEqual(books, { overAdmitted: 0, lostUsage: 0, duplicates: 0 }, row);
    t.deepEqual(Object.keys(cpuMicros).toSorted(), ['ingress', 'redis', 'worker']);
  }
  t.true(warmUps.length > 0);
  for (const { books } of warmUps) t.deepEqual(books, { overAdmitted: 0, lostUsage: 0, duplicates: 0 });
});

test('the page shows medians by load and row, all wrong requests, warnings and the limits', (t) => {
  const right = { overAdmitted: 0, lostUsage: 0, duplicates: 0 };
  const runs = [100, 300, 200].map((answered, round) =>
    sampleRun({
      ...{ row: 'three masters', load: '1 model', round, answered, p50Ms: 10 * (round + 1), p99Ms: 90 },
      ...{ cpuMicros: { ingress: 5, worker: 6, redis: 7 }, books: { ...right, duplicates: 1 } },
    }),
  );
  const warmUps = [{ row: 'three masters', load: '64 clients', books: { ...right, lostUsage: 2 } }];
  const truth = [{ row: 'three masters', question: 'admitted', answer: '100 in 60 s' }];
  const other = sampleRun({ row: 'one Redis', load: '1 model', round: 0 });
  const cluster = { rounds: 3, seconds: 1, warnings: ['the machine was busy'], runs: [...runs, other], warmUps, truth };
  const lines = clusterLines({ cluster, taken: {} });
  t.true(lines.includes('| 1 model, three masters | 200 | 20 | 90 | 5 | 6 | 7 | 0, 2, 3 |'), lines.join('\n'));
  const rows = lines.filter((line) => line.startsWith('| 1 model, ')).map((line) => line.split(' | ')[0]);
  t.deepEqual(rows, ['| 1 model, one Redis', '| 1 model, three masters'], 'whichever was measured first');
  t.true(lines.includes('| admitted | 100 in 60 s |'));
  t.regex(lines.join('\n'), /\*\*Warning: the machine was busy\.\*\*/);
  t.deepEqual(clusterLines({ cluster: undefined, taken: {} }), ['Not measured yet.']);
});
