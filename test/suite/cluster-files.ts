import { testFiles } from './test-files.ts';

const folder = 'test/flows/';

/** Flows that `npm test` runs on a Redis Cluster, too. `npm run test:rest` runs all others there. */
export const fastOnCluster: readonly string[] = [
  'chat-completion.test.ts',
  'limits.test.ts',
  'revocation.test.ts',
  'batches.test.ts',
  'run-batches.test.ts',
  'files.test.ts',
  'usage.test.ts',
];

/** Other tests that `npm run test:rest` runs on a Redis Cluster, too: processes are killed, and all counts agree. */
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

/** Files that run on a Redis Cluster with this selection of tests. */
export function clusterFiles(selection: 'fast' | 'rest'): string[] {
  const paths = [...testFiles('fast'), ...testFiles('rest')].filter((path) => path.startsWith(folder));
  const flows = new Set(paths.map((path) => path.slice(folder.length)));
  for (const name of Object.keys(notOnCluster)) flows.delete(name);
  if (selection === 'fast') return [...flows].filter((name) => fastOnCluster.includes(name)).map(pathOf);
  return [...[...flows].filter((name) => !fastOnCluster.includes(name)).map(pathOf), ...othersOnCluster];
}

const pathOf = (name: string) => folder + name;
