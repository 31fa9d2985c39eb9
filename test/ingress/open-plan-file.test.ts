import test from 'ava';
import { createPlanFileSwitch } from '../../ingress/open-plan-file.ts';
import type { FleetProcess } from '../../shared/fleet/note-process.ts';
import { createPlanFileInForce } from '../../shared/process/watch-plan-file.ts';
import { parsedPlan } from '../support/parsed-plan.ts';
import { recordedLog } from '../support/recorded-log.ts';

const first = parsedPlan();
/** The model of a further pool comes. */
const second = parsedPlan(({ models }) =>
  Object.assign(models, { 'large-chat': { ...models['small-chat'], pool: 'large' } }),
);

function start(from = first) {
  const planFile = createPlanFileInForce(from);
  const { read, noted, next, isWaiting } = createPlanFileSwitch({ planFile, log: recordedLog().log });
  return { generation: planFile.generation, read, noted, next, isWaiting };
}

const worker = (id: string, { generation }: { generation: string }, ...pools: string[]): FleetProcess => ({
  ...{ id, kind: 'worker', generation, pools, issues: 0, startedAt: 1 },
});

test('an ingress switches once each pool of the new plan file has a worker with it', (t) => {
  const { generation, read, noted, next, isWaiting } = start();
  read(second);
  t.deepEqual(next(), { generation: second.generation, waitsFor: ['default', 'large'] });
  t.true(isWaiting());
  noted([worker('a', first, 'default')]);
  t.deepEqual(next()?.waitsFor, ['default', 'large']);
  noted([worker('a', second, 'default'), worker('b', first, 'large')]);
  t.deepEqual(next()?.waitsFor, ['large']);
  t.is(generation(), first.generation);
  noted([worker('a', second, 'default'), worker('b', second, 'large')]);
  t.is(generation(), second.generation);
  t.false(isWaiting());
});

test('one of several workers of a pool is enough', (t) => {
  const { generation, read, noted } = start();
  read(second);
  noted([worker('a', second, 'default', 'large'), worker('b', first, 'default')]);
  t.is(generation(), second.generation);
});

test('a pool in force that has no worker at all keeps nothing back, and a new pool without a worker does', (t) => {
  const { generation, read, noted, next } = start();
  read(second);
  noted([]);
  t.deepEqual(next()?.waitsFor, ['large']);
  const back = start(second);
  back.read(first);
  back.noted([]);
  t.is(back.generation(), first.generation);
  t.is(generation(), first.generation);
});

test('an ingress is no worker', (t) => {
  const { read, noted, next } = start();
  read(second);
  noted([{ ...worker('i', second, 'default', 'large'), kind: 'ingress' }]);
  t.true(next()?.waitsFor.includes('large'));
});

test('a plan file that was withdrawn before the switch, or replaced by an invalid one, is forgotten', (t) => {
  for (const then of [undefined, first]) {
    const { generation, read, noted, next } = start();
    read(second);
    read(then);
    t.is(next(), undefined);
    noted([worker('a', second, 'default', 'large')]);
    t.is(generation(), first.generation);
  }
});
