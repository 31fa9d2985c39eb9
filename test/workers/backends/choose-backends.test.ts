import test from 'ava';
import type { Backend } from '../../../shared/plan-file.ts';
import { chooseBackends } from '../../../workers/backends/choose-backends.ts';

const at = (location: Backend['location']): Backend => ({ url: 'http://127.0.0.1:1/v1', location });
const backends = { a: at('on-prem'), b: at('on-prem'), c: at('cloud'), d: at('cloud') };

const table: { title: string; listed: string[]; chosen: string[] }[] = [
  { title: 'keeps the order of the plan file within a location', listed: ['b', 'a'], chosen: ['b', 'a'] },
  {
    title: 'puts on-prem before the cloud, wherever it is listed',
    listed: ['c', 'a', 'd', 'b'],
    chosen: ['a', 'b', 'c', 'd'],
  },
  { title: 'has the cloud alone', listed: ['d', 'c'], chosen: ['d', 'c'] },
  { title: 'leaves out a name that no backend has', listed: ['a', 'gone', 'c'], chosen: ['a', 'c'] },
  { title: 'has none for a model without backends', listed: [], chosen: [] },
];

for (const { title, listed, chosen } of table) {
  test(title, (t) => {
    const models = { m: { tier: 'standard', pool: 'default', backends: listed, outputTokensMax: 1 } };
    t.deepEqual(chooseBackends('m', { models, backends }), chosen);
  });
}

test('has none for an unknown model', (t) => {
  t.deepEqual(chooseBackends('m', { models: {}, backends }), []);
});
