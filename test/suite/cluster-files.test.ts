import test from 'ava';
import { alwaysOnCluster, clusterFiles, flowFiles, notOnCluster } from './cluster-files.ts';

test('every flow runs on a Redis Cluster once, or is listed with the reason why it does not', (t) => {
  const flows = flowFiles();
  const listed = [...alwaysOnCluster, ...Object.keys(notOnCluster)];
  t.deepEqual(
    listed.filter((name) => !flows.has(name)),
    [],
    'listed, but missing',
  );
  const files = [...clusterFiles('slow'), ...clusterFiles('nightly')];
  const left = Object.keys(notOnCluster).map((name) => flows.get(name) ?? name);
  t.deepEqual([...files.filter((path) => path.startsWith('test/flows/')), ...left].sort(), [...flows.values()].sort());
  t.is(clusterFiles('slow').length, alwaysOnCluster.length);
  t.is(files.filter((path) => path.startsWith('test/faults/')).length, 2);
});
