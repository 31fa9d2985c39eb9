import test from 'ava';
import type { FleetProcess } from '../../shared/fleet/note-process.ts';
import { createPlanFileInForce } from '../../shared/process/watch-plan-file.ts';
import { createServedPlanFile } from '../../workers/open-plan-file.ts';
import { parsedPlan } from '../support/parsed-plan.ts';
import { recordedLog } from '../support/recorded-log.ts';

const backend = { url: 'http://127.0.0.1:8085/v1', location: 'on-prem' };
/** Two models in two pools, of which the second has a backend of its own. */
const both = parsedPlan(({ models, backends }) => {
  Object.assign(models, { 'large-chat': { ...models['small-chat'], pool: 'large', backends: ['onprem-b'] } });
  Object.assign(backends, { 'onprem-b': backend });
});
const one = parsedPlan();
const moved = parsedPlan(({ models, backends }) => {
  Object.assign(models, { 'large-chat': { ...models['small-chat'], pool: 'default', backends: ['onprem-b'] } });
  Object.assign(backends, { 'onprem-b': backend });
});
const slow = parsedPlan((plan) => Object.assign(plan, { timeouts: { queue_ms: 60_000 } }));

function start(from = both, pools?: readonly string[]) {
  let time = 0;
  const planFile = createPlanFileInForce(from);
  const served = createServedPlanFile({ planFile, pools, log: recordedLog().log, now: () => time });
  const models = () => Object.keys(planFile.current().models);
  const pass = (ms: number) => {
    time += ms;
  };
  return { ...served, planFile, models, pass };
}

const ingress = (id: string, { generation }: { generation: string }): FleetProcess => ({
  ...{ id, kind: 'ingress', generation, pools: [], issues: 0, startedAt: 1 },
});

test('a new plan file is in force at once, and a model that has gone is served with its backends', (t) => {
  const { planFile, read, models, pools } = start();
  read(one);
  t.is(planFile.generation(), one.generation);
  t.deepEqual(models(), ['small-chat', 'large-chat']);
  t.is(planFile.current().backends['onprem-b']?.url, backend.url);
  t.deepEqual(pools(), ['default', 'large']);
  t.false('constructor' in planFile.current().models);
});

test('it is served until every ingress has switched for queue_ms and the time of a slow body', (t) => {
  const { planFile, read, noted, models, pass, pools } = start();
  read(one);
  noted([ingress('a', one), ingress('b', both)]);
  pass(600_000);
  noted([ingress('a', one), ingress('b', both)]);
  t.deepEqual(models(), ['small-chat', 'large-chat']);
  noted([ingress('a', one), ingress('b', one)]);
  pass(59_999);
  noted([ingress('a', one), ingress('b', one)]);
  t.deepEqual(models(), ['small-chat', 'large-chat']);
  pass(1);
  noted([ingress('a', one), ingress('b', one)]);
  t.deepEqual(models(), ['small-chat']);
  t.deepEqual(pools(), ['default']);
  t.is(planFile.current().backends['onprem-b'], undefined);
});

test('an ingress that appears with the earlier plan file starts that time again', (t) => {
  const { read, noted, models, pass } = start();
  read(one);
  noted([ingress('a', one)]);
  pass(59_000);
  noted([ingress('a', one), ingress('b', both)]);
  pass(59_000);
  noted([ingress('a', one), ingress('b', one)]);
  t.deepEqual(models(), ['small-chat', 'large-chat']);
});

test('the longest queue_ms so far counts, because requests may wait that were admitted under it', (t) => {
  const { read, noted, pass, models } = start();
  read(slow);
  read(both);
  read(one);
  noted([ingress('a', one)]);
  pass(89_999);
  noted([ingress('a', one)]);
  t.deepEqual(models(), ['small-chat', 'large-chat']);
  pass(1);
  noted([ingress('a', one)]);
  t.deepEqual(models(), ['small-chat']);
});

test('a long queue_ms counts only until the requests that were admitted under it have ended', (t) => {
  const { read, noted, pass, models } = start();
  read(slow);
  const retire = (ms: number) => {
    read(one);
    noted([ingress('a', one)]);
    pass(ms - 1);
    noted([ingress('a', one)]);
    t.deepEqual(models(), ['small-chat', 'large-chat']);
    pass(1);
    noted([ingress('a', one)]);
    t.deepEqual(models(), ['small-chat']);
  };
  read(both);
  retire(90_000);
  read(both);
  retire(60_000);
});

test('a model that has moved to a pool of other workers is served as well, with its new settings', (t) => {
  const { read, models, planFile, noted, pass } = start(both, ['large']);
  read(moved);
  t.deepEqual(models().toSorted(), ['large-chat', 'small-chat']);
  t.is(planFile.current().models['large-chat']?.pool, 'large');
  noted([ingress('a', moved)]);
  pass(60_000);
  noted([ingress('a', moved)]);
  t.is(planFile.current().models['large-chat']?.pool, 'default');
});

test('a model of a pool that this worker never had is not retired, and one that comes back is not either', (t) => {
  const { read, planFile, models } = start(both, ['default']);
  read(one);
  t.is(planFile.current(), one.planFile);
  const back = start();
  back.read(one);
  back.read(both);
  t.is(back.planFile.current(), both.planFile);
  t.deepEqual(models(), ['small-chat']);
});

test('without an ingress nothing can be queued, and an invalid file changes nothing', (t) => {
  const { read, noted, models, pass, planFile } = start();
  read(undefined);
  t.is(planFile.current(), both.planFile);
  read(one);
  noted([]);
  pass(60_000);
  noted([]);
  t.deepEqual(models(), ['small-chat']);
});
