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

const otherStore = 'its store is MongoDB; the same cases run with SQLite';

/** Flows that cannot run on a cluster, or would show nothing more there, and why. */
export const notOnCluster: Readonly<Record<string, string>> = {
  'audit-mongodb.slow.ts': otherStore,
  'key-life-mongodb.slow.ts': otherStore,
  'route-statuses-mongodb.slow.ts': otherStore,
  'mixed-releases.slow.ts': 'the previous release cannot use a cluster',
  'npm-start.slow.ts': 'npm start starts one Redis',
  'documentation-examples.slow.ts': 'the answers in its examples are those with one Redis',
};

/** Files of flows that run on a Redis Cluster with this selection of tests. */
export function clusterFiles(selection: 'fast' | 'rest'): string[] {
  const flows = [...testFiles('fast'), ...testFiles('rest')].filter((path) => path.startsWith(folder));
  const names = [...new Set(flows)].map((path) => path.slice(folder.length));
  const isFast = (name: string) => fastOnCluster.includes(name);
  return names
    .filter((name) => !(name in notOnCluster) && isFast(name) === (selection === 'fast'))
    .map((name) => folder + name);
}
