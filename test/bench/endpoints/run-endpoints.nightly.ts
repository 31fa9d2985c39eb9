import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test from 'ava';
import { sampleRun } from '../../support/sample-runs.ts';
import { compare } from '../comparison/compare.ts';
import { endpointLines } from '../comparison/documents.ts';
import { startModelServer } from '../gateways/places.ts';
import { endpointLoads, endpointRows } from './run-endpoints.ts';

test('each endpoint is called, and nothing is lost, duplicated or over-admitted', async (t) => {
  t.timeout(120_000);
  await using parts = new AsyncDisposableStack();
  const directory = await mkdtemp(join(tmpdir(), 'inference-bench-'));
  parts.defer(() => rm(directory, { recursive: true, force: true }));
  const modelServer = parts.use(await startModelServer(directory));
  const short = { rounds: 1, seconds: 1, firstWarmUpSeconds: 1, warmUpSeconds: 1 };
  const options = { directory, modelServer, peers: directory, withPeers: false, ...short };
  const { runs, warmUps } = await compare({ ...options, rows: endpointRows, loads: endpointLoads });
  t.deepEqual(runs.map(({ row }) => row).toSorted(), ['chat completions', 'embeddings']);
  t.true(warmUps.length > 0);
  for (const { row, answered, failed } of runs) t.true(answered > 0 && failed === 0, row);
  for (const { row, books } of [...runs, ...warmUps]) {
    t.deepEqual(books, { overAdmitted: 0, lostUsage: 0, duplicates: 0 }, row);
  }
});

test('the page shows medians by endpoint, and all wrong requests', (t) => {
  const right = { overAdmitted: 0, lostUsage: 0, duplicates: 0 };
  const runs = [100, 300, 200].map((answered, round) =>
    sampleRun({
      ...{ row: 'embeddings', load: '64 clients', round, answered, p50Ms: 10 * (round + 1), p99Ms: 90 },
      ...{ cpuMicros: { ingress: 5, worker: 6, redis: 7 }, books: { ...right, lostUsage: 1 } },
    }),
  );
  const endpoints = { rounds: 3, seconds: 1, warnings: ['the machine was busy'], runs, warmUps: [] };
  const lines = endpointLines({ endpoints, taken: {} });
  t.true(lines.includes('| embeddings | 200 | 20 | 90 | 5 | 6 | 7 | 0, 3, 0 |'), lines.join('\n'));
  t.regex(lines.join('\n'), /\*\*Warning: the machine was busy\.\*\*/);
  t.deepEqual(endpointLines({ endpoints: undefined, taken: {} }), ['Not measured yet.']);
});
