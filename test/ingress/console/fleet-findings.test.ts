import test from 'ava';
import { findingsIn } from '../../../ingress/console/fleet/fleet-findings.ts';
import type { FleetView } from '../../../ingress/routes/fleet.ts';
import { backend, fleetView, health, queue, refused } from '../../support/fleet-view.ts';

const texts = (change: Partial<FleetView>) => findingsIn({ ...fleetView, ...change }).map(({ text }) => text);
const [worker] = fleetView.workers;

test('nothing is found in a fleet that is well, also where a limit is of each worker', (t) => {
  t.deepEqual(texts({}), []);
  t.deepEqual(texts({ backends: [{ ...backend, calls: 9, per_worker: true, shares: null }] }), []);
  t.deepEqual(texts({ backends: [{ ...backend, models: [{ ...health, answered: 90, failed: 10 }] }] }), []);
});

test('what is unusual is said in words, once for each backend', (t) => {
  t.deepEqual(texts({ pools: [{ pool: 'default', workers: 1, models: [{ ...queue, oldest_ms: 6_000 }] }] }), [
    'A request for small-chat has waited 6.00 s for a worker.',
  ]);
  const often = { ...health, answered: 8, failed: 1, last_failure: refused };
  const models = [often, { ...often, model: 'large-chat', failed: 2, suspects: 1 }];
  t.deepEqual(texts({ backends: [{ ...backend, calls: 8, models }] }), [
    'a fails for small-chat and large-chat: 3 of 19 calls in the last minute (connection refused). 1 account asks it last.',
    'a is full: 8 of 8 calls.',
  ]);
  t.deepEqual(
    texts({
      workers: [{ ...worker, id: 'q', started_at: '', generation: 'bbb', pools: [], running: null, waiting: null }],
    }),
    [
      'The processes work with different plan files. See Plan file.',
      'What 1 process of another release does is not known.',
    ],
  );
});

test('a pause by an operator and a model that loads are found; a busy backend is usual', (t) => {
  const left = { workers: 2, left_ms: 900 };
  const times = { since: '2026-03-01T09:00:00.000Z', ends_at: '2026-03-01T09:30:00.000Z' };
  const paused = { ...times, by: 'user:olga', by_name: 'Olga', reason: 'new disks' };
  t.deepEqual(texts({ backends: [{ ...backend, paused, pauses: [{ kind: 'loading', ...left }] }] }), [
    'a is paused by Olga: new disks.',
    'a loads its model.',
  ]);
  t.deepEqual(texts({ backends: [{ ...backend, pauses: [{ kind: 'busy', ...left }] }] }), []);
});

test('a queue that is filling is found, one with many lines of batches is not', (t) => {
  const waiting = (interactive: number, batch = 0) =>
    texts({ pools: [{ pool: 'default', workers: 1, models: [{ ...queue, queued: { interactive, batch } }] }] });
  t.deepEqual(waiting(1_000, 50_000), []);
  t.deepEqual(waiting(1_001), ['The queue of small-chat is filling: 1,001 of 2,000 requests wait.']);
  t.deepEqual(waiting(2_000), [], 'it is an incident');
});

test('a finding stays the same one while only its numbers change', (t) => {
  const keysAt = (oldest_ms: number, failed: number) =>
    findingsIn({
      ...fleetView,
      pools: [{ pool: 'default', workers: 1, models: [{ ...queue, oldest_ms }] }],
      backends: [{ ...backend, calls: 8 + failed, models: [{ ...health, answered: 8, failed }] }],
    }).map(({ key }) => key);
  t.is(new Set(keysAt(6_000, 1)).size, 3);
  t.deepEqual(keysAt(6_000, 1), keysAt(9_000, 5));
});
