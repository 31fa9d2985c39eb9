import { testFiles } from './test-files.ts';

const folder = 'test/flows/';

/** Flows that `.ci/run` also runs on a Redis Cluster. `npm run nightly` runs all others there. */
export const alwaysOnCluster: readonly string[] = [
  'chat-completion.test.ts',
  'limits.test.ts',
  'revocation.test.ts',
  'batches.test.ts',
  'run-batches.test.ts',
  'files.test.ts',
  'usage.test.ts',
];

/** Other tests that `npm run nightly` also runs on a Redis Cluster: processes are killed, and all counts agree. */
const othersOnCluster: readonly string[] = [
  'test/faults/truth-sqlite.test.ts',
  'test/faults/truth-batches-sqlite.slow.ts',
];

const sameAnswers = 'it is about bodies and answers, which no Redis changes';
const otherStore = 'its store is MongoDB; the same cases run with SQLite';

/** Flows that cannot run on a cluster, or would show nothing more there, and why. */
export const notOnCluster: Readonly<Record<string, string>> = {
  'audit-mongodb.slow.ts': otherStore,
  'key-life-mongodb.slow.ts': otherStore,
  'route-statuses-mongodb.slow.ts': otherStore,
  'restore-mongodb.slow.ts': otherStore,
  'endpoints/hostile-fields.test.ts': sameAnswers,
  'endpoints/openai-base-path.test.ts': sameAnswers,
  'endpoints/required-properties.test.ts': sameAnswers,
  'reference-examples.slow.ts': sameAnswers,
  'npm-start.slow.ts': 'npm start starts one Redis',
  'documentation-examples.slow.ts': 'the answers in its examples are those with one Redis',
};

/** Files that run on a Redis Cluster in this suite. */
export function clusterFiles(suite: 'slow' | 'nightly'): string[] {
  const files = (['fast', 'slow', 'nightly'] as const).flatMap(testFiles).filter((path) => path.startsWith(folder));
  const flows = new Set(files.map((path) => path.slice(folder.length)));
  for (const name of Object.keys(notOnCluster)) flows.delete(name);
  const always = [...flows].filter((name) => alwaysOnCluster.includes(name)).map(pathOf);
  if (suite === 'slow') return always;
  return [...[...flows].map(pathOf).filter((path) => !always.includes(path)), ...othersOnCluster];
}

const pathOf = (name: string) => folder + name;
