import test from 'ava';
import { findingsIn } from '../../../ingress/console/fleet/fleet-findings.ts';
import type { FleetView } from '../../../ingress/routes/fleet.ts';

const process = { id: 'p', generation: 'aaa', started_at: '2026-03-01T09:00:00.000Z' };
const health = {
  ...{ model: 'small-chat', breakers: { closed: 2, 'half-open': 0, open: 0 } },
  ...{ first_token_ms: 100, answered: 90, failed: 0, prompt_tokens: 0, cached_tokens: 0, suspects: 0 },
  ...{ failing_since: null, last_failure: null },
};
const backend: FleetView['backends'][number] = {
  ...{ backend: 'a', location: 'on-prem', calls: 3, limit: 8, per_worker: false, shares: 8, models: [health] },
  ...{ paused: null, pauses: [], weight: 1 },
};
const queue = { model: 'small-chat', queued: { interactive: 0, batch: 0 }, queue_max: 2_000, oldest_ms: 0 };
const well: FleetView = {
  object: 'fleet',
  ingresses: [{ ...process, connections: 1, waiting: 0 }],
  workers: [{ ...process, pools: ['default'], running: 0, waiting: 0 }],
  pools: [{ pool: 'default', workers: 1, models: [queue] }],
  backends: [backend],
};

const texts = (change: Partial<FleetView>) =>
  findingsIn({ ...well, ...change }).map(({ tone, text }) => `${tone}: ${text}`);
const broken = { ...health, breakers: { closed: 0, 'half-open': 1, open: 1 } };

test('nothing is found in a fleet that is well, also where a limit is of each worker', (t) => {
  t.deepEqual(texts({}), []);
  t.deepEqual(texts({ backends: [{ ...backend, calls: 9, per_worker: true, shares: null }] }), []);
  t.deepEqual(
    texts({
      backends: [{ ...backend, models: [{ ...health, answered: 90, failed: 10, prompt_tokens: 0, cached_tokens: 0 }] }],
    }),
    [],
  );
});

test('each fault is said in words, the worst first', (t) => {
  t.deepEqual(texts({ pools: [{ pool: 'default', workers: 0, models: [{ ...queue, oldest_ms: 6_000 }] }] }), [
    'bad: The pool default has no worker: its requests wait, and then get 503.',
    'warning: A request for small-chat has waited 6.00 s for a worker.',
  ]);
  t.deepEqual(texts({ backends: [{ ...backend, models: [broken] }] }), [
    'bad: small-chat is down: all its backends fail.',
    'bad: a is not called for small-chat by 1 worker: its breaker is open.',
  ]);
  const other = {
    ...backend,
    backend: 'b',
    calls: 8,
    models: [{ ...health, answered: 8, failed: 1, prompt_tokens: 0, cached_tokens: 0 }],
  };
  t.deepEqual(texts({ backends: [{ ...backend, models: [broken] }, other] }), [
    'bad: a is not called for small-chat by 1 worker: its breaker is open.',
    'warning: b fails for small-chat: 1 of 9 calls in the last minute.',
    'warning: b is full: 8 of 8 calls.',
  ]);
  const forOne = { ...health, answered: 1, failed: 1, prompt_tokens: 0, cached_tokens: 0, suspects: 1 };
  t.deepEqual(texts({ backends: [{ ...backend, models: [forOne] }] }), [
    'warning: a fails for small-chat: 1 of 2 calls in the last minute. It is asked last by 1 account.',
  ]);
  const tested = { ...health, breakers: { closed: 0, 'half-open': 2, open: 0 } };
  t.deepEqual(texts({ backends: [{ ...backend, models: [tested] }] }), [
    'warning: a has failed for small-chat: its next call tests it, in 2 workers.',
  ]);
  t.deepEqual(texts({ workers: [{ ...process, generation: 'bbb', pools: [], running: null, waiting: null }] }), [
    'warning: The processes work with different plan files. See Settings.',
    'warning: What 1 process of another release does is not known.',
  ]);
});

test('pauses are found: a refused account, an operator’s, and a model that loads; a busy backend is usual', (t) => {
  const left = { workers: 2, left_ms: 900 };
  const pauses = [
    { kind: 'busy', ...left },
    { kind: 'loading', ...left },
    { kind: 'account', ...left },
  ] as const;
  const times = { since: '2026-03-01T09:00:00.000Z', ends_at: '2026-03-01T09:30:00.000Z' };
  const paused = { ...times, by: 'user:olga', reason: null };
  t.deepEqual(texts({ backends: [{ ...backend, paused, pauses: [...pauses] }] }), [
    'bad: small-chat is down: its backends are paused or fail.',
    'bad: a refuses the account of this service there: look at its key, its credit and its bill.',
    'warning: a is paused by user:olga.',
    'warning: a loads its model.',
  ]);
  t.deepEqual(texts({ backends: [{ ...backend, pauses: [pauses[0]] }] }), []);
  const failing = { ...backend, backend: 'b', models: [broken] };
  t.true(
    texts({ backends: [{ ...backend, paused }, failing] }).includes(
      'bad: small-chat is down: its backends are paused or fail.',
    ),
  );
  t.false(texts({ backends: [{ ...backend, paused }, backend] }).some((text) => text.includes('is down')));
});

test('a queue that is full or filling is found, one with many lines of batches is not', (t) => {
  const waiting = (interactive: number, batch = 0) =>
    texts({ pools: [{ pool: 'default', workers: 1, models: [{ ...queue, queued: { interactive, batch } }] }] });
  t.deepEqual(waiting(1_000, 50_000), []);
  t.deepEqual(waiting(1_001), ['warning: The queue of small-chat is filling: 1,001 of 2,000 requests wait.']);
  t.deepEqual(waiting(2_000), [
    'bad: The queue of small-chat is full: 2,000 of 2,000 requests wait, and further ones get 503.',
  ]);
});

test('a finding stays the same one while only its numbers change', (t) => {
  const keysAt = (oldest_ms: number, failed: number, open: number) =>
    findingsIn({
      ...well,
      pools: [{ pool: 'default', workers: 1, models: [{ ...queue, oldest_ms }] }],
      backends: [
        { ...backend, calls: 8 + failed, models: [{ ...health, answered: 8, failed }] },
        { ...backend, backend: 'b', models: [{ ...health, breakers: { closed: 2, 'half-open': 0, open } }] },
        { ...backend, backend: 'c', models: [{ ...health, breakers: { closed: 2, 'half-open': open, open: 0 } }] },
      ],
    }).map(({ key }) => key);
  t.is(new Set(keysAt(6_000, 1, 1)).size, 5);
  t.deepEqual(keysAt(6_000, 1, 1), keysAt(9_000, 5, 2));
});
