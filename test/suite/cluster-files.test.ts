import { existsSync, readdirSync } from 'node:fs';
import test from 'ava';
import { clusterFiles, fastOnCluster, notOnCluster } from './cluster-files.ts';

test('every flow runs on a Redis Cluster once, or is listed with the reason why it does not', (t) => {
  const flows = readdirSync('test/flows', { recursive: true, encoding: 'utf8' }).filter((name) =>
    /\.(test|slow)\.ts$/.test(name),
  );
  const listed = [...fastOnCluster, ...Object.keys(notOnCluster)];
  t.deepEqual(
    listed.filter((name) => !flows.includes(name)),
    [],
    'listed, but missing',
  );
  const files = [...clusterFiles('fast'), ...clusterFiles('rest')];
  const run = files.filter((path) => path.startsWith('test/flows/')).map((path) => path.replace('test/flows/', ''));
  t.deepEqual([...run, ...Object.keys(notOnCluster)].sort(), flows.sort());
  t.is(clusterFiles('fast').length, fastOnCluster.length);
  t.deepEqual(
    files.filter((path) => !existsSync(path)),
    [],
    'other files, but missing',
  );
});
