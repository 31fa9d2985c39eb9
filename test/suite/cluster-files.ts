import { testFiles } from './test-files.ts';

const folder = 'test/flows/';

/** Flows that `.ci/run` also runs on a Redis Cluster. `npm run nightly` runs all others there. */
export const alwaysOnCluster: readonly string[] = ['chat-completion', 'limits', 'revocation'];

/** Faults that `npm run nightly` also runs on a Redis Cluster: processes are killed, and all counts agree. */
const faultsOnCluster: readonly string[] = ['truth-sqlite', 'truth-batches-sqlite'];

const sameAnswers = 'it is about bodies and answers, which no Redis changes';
const otherStore = 'its store is MongoDB; the same cases run with SQLite';

/** Flows that cannot run on a cluster, or would show nothing more there, and why. */
export const notOnCluster: Readonly<Record<string, string>> = {
  'audit-mongodb': otherStore,
  'key-life-mongodb': otherStore,
  'route-statuses-mongodb': otherStore,
  'restore-mongodb': otherStore,
  'endpoints/hostile-fields': sameAnswers,
  'endpoints/openai-base-path': sameAnswers,
  'endpoints/required-properties': sameAnswers,
  'reference-examples': sameAnswers,
  'npm-start': 'npm start starts one Redis',
  'documentation-examples': 'the answers in its examples are those with one Redis',
};

/** The flows of all suites: their paths, by their names without an ending. */
export function flowFiles(): Map<string, string> {
  return named(folder);
}

/** Files that run on a Redis Cluster in this suite. */
export function clusterFiles(suite: 'slow' | 'nightly'): string[] {
  const flows = [...flowFiles()].filter(([name]) => !(name in notOnCluster));
  const paths = flows.filter(([name]) => alwaysOnCluster.includes(name) === (suite === 'slow')).map(([, path]) => path);
  if (suite === 'slow') return paths;
  return [...paths, ...truthOnCluster()];
}

export function truthOnCluster(): string[] {
  const faults = [...named('test/faults/')].filter(([name]) => faultsOnCluster.includes(name));
  return faults.map(([, path]) => path);
}

function named(folder: string): Map<string, string> {
  const paths = (['fast', 'slow', 'nightly'] as const).flatMap(testFiles).filter((path) => path.startsWith(folder));
  const files = new Map(paths.map((path) => [path.slice(folder.length).replace(/\.\w+\.ts$/, ''), path]));
  if (files.size < paths.length) throw new Error(`two files in ${folder} have the same name except for its ending`);
  return files;
}
