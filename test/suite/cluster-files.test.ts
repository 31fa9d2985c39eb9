import { existsSync, readdirSync } from 'node:fs';
import test from 'ava';
import { alwaysOnCluster, clusterFiles, notOnCluster } from './cluster-files.ts';

test('every flow runs on a Redis Cluster once, or is listed with the reason why it does not', (t) => {
  const flows = readdirSync('test/flows', { recursive: true, encoding: 'utf8' }).filter((name) =>
    /\.(test|slow|nightly)\.ts$/.test(name),
  );
  const listed = [...alwaysOnCluster, ...Object.keys(notOnCluster)];
  t.deepEqual(
    listed.filter((name) => !flows.includes(name)),
    [],
    'listed, but missing',
  );
  const files = [...clusterFiles('slow'), ...clusterFiles('nightly')];
  const run = files.filter((path) => path.startsWith('test/flows/')).map((path) => path.replace('test/flows/', ''));
  t.deepEqual([...run, ...Object.keys(notOnCluster)].sort(), flows.sort());
  t.is(clusterFiles('slow').length, alwaysOnCluster.length);
  t.deepEqual(
    files.filter((path) => !existsSync(path)),
    [],
    'other files, but missing',
  );
});
