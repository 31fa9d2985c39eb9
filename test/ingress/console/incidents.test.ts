import test from 'ava';
import { backendState } from '../../../ingress/console/fleet/backend-state.ts';
import { failedSince, hoursOf, incidentsIn } from '../../../ingress/console/fleet/incidents.ts';
import type { FleetView } from '../../../ingress/routes/fleet.ts';
import { backend, fleetView, health, queue, refused } from '../../support/fleet-view.ts';

const at = (time: string) => `2026-03-01T${time}:00.000Z`;
const seconds = (time: string) => Date.parse(at(time)) / 1_000;
const away = { closed: 0, 'half-open': 1, open: 1 };
const broken = (model: string, since: string) => ({
  ...{ ...health, model, breakers: away, failing_since: at(since), last_failure: refused },
});
const fleetOf = (backends: FleetView['backends'], models = ['small-chat']) => ({
  ...fleetView,
  pools: [{ pool: 'default', workers: 1, models: models.map((model) => ({ ...queue, model })) }],
  backends,
});
const shown = (fleet: FleetView) =>
  incidentsIn(fleet).map(({ tone, title, causes, runbook }) => {
    const why = causes.map(({ backends, words, addresses }) => [...backends, words, ...addresses].join(' '));
    return [tone, title, ...why, runbook];
  });

test('a fleet that is well has no incident', (t) => {
  t.deepEqual(incidentsIn(fleetView), []);
});

test('a model that cannot be answered is one incident with the cause of each backend', (t) => {
  const pauses = [{ kind: 'account' as const, workers: 1, left_ms: 900 }];
  const unauthorized = {
    ...refused,
    request: 'req_9',
    at: at('10:09'),
    cause: 'HTTP 401',
    status: 401,
    address: 'cloud:443',
  };
  const fleet = fleetOf([
    { ...backend, models: [broken('small-chat', '04:00')] },
    {
      ...{ ...backend, backend: 'b' },
      models: [{ ...broken('small-chat', '04:02'), last_failure: { ...refused, address: '10.0.3.12:8000' } }],
    },
    { ...backend, backend: 'cloud', pauses, models: [{ ...health, last_failure: unauthorized }] },
  ]);
  t.deepEqual(shown(fleet), [
    [
      'bad',
      'small-chat cannot be answered',
      'a b connection refused 10.0.3.11:8000 10.0.3.12:8000',
      'cloud HTTP 401, is its key valid? cloud:443',
      'model-down',
    ],
  ]);
  t.like(incidentsIn(fleet)[0], { since: undefined, models: ['small-chat'], request: 'req_9' });
});

test('a model cannot be answered since the last of its backends is away, if each such time is known', (t) => {
  const since = (...backends: FleetView['backends']) => incidentsIn(fleetOf(backends))[0]?.since;
  const [first, second] = ['04:00', '04:02'].map((time) => ({ ...backend, models: [broken('small-chat', time)] }));
  t.truthy(first && second && since(first, { ...second, backend: 'b' }) === seconds('04:02'));
  const pauses = [{ kind: 'account' as const, workers: 1, left_ms: 900 }];
  const atLast = (time: string) => {
    const models = [{ ...health, last_failure: { ...refused, at: at(time) } }];
    return since({ ...backend, pauses, models });
  };
  t.deepEqual([atLast('10:00'), atLast('10:05')], [undefined, undefined], 'the latest failure is not the first one');
});

test('models that fail for the same cause are one incident, since the first of them fails', (t) => {
  const models = ['small-chat', 'large-chat'];
  const fleet = fleetOf(
    [{ ...backend, models: [broken('small-chat', '04:01'), broken('large-chat', '04:00')] }],
    models,
  );
  t.deepEqual(shown(fleet), [
    ['bad', 'small-chat and large-chat cannot be answered', 'a connection refused 10.0.3.11:8000', 'model-down'],
  ]);
  t.is(incidentsIn(fleet)[0]?.since, seconds('04:00'));
});

test('a backend that fails while others answer is one incident, for all of its models', (t) => {
  const other = { ...backend, backend: 'b', models: [health, { ...health, model: 'large-chat' }] };
  const failing = (...models: FleetView['backends'][number]['models']) =>
    shown(fleetOf([{ ...backend, models }, other], ['small-chat', 'large-chat']));
  const cause = 'a connection refused 10.0.3.11:8000';
  t.deepEqual(failing(broken('small-chat', '04:00'), broken('large-chat', '04:00')), [
    ['warning', 'a is not called', cause, 'backend-not-called'],
  ]);
  t.deepEqual(failing(broken('small-chat', '04:00'), { ...health, model: 'large-chat' }), [
    ['warning', 'a is not called for small-chat', cause, 'backend-not-called'],
  ]);
  t.deepEqual(failing({ ...broken('small-chat', '04:00'), breakers: { ...away, closed: 2 } }), [
    ['warning', 'a is not called by 2 of 4 workers', cause, 'backend-not-called'],
  ]);
});

test('backends that operators have paused can leave a model without an answer', (t) => {
  const paused = { since: at('05:00'), ends_at: at('06:00'), by: 'user:olga', reason: null };
  t.deepEqual(shown(fleetOf([{ ...backend, paused }])), [
    ['bad', 'small-chat cannot be answered', 'a paused by user:olga', 'model-down'],
  ]);
  t.deepEqual(
    shown(
      fleetOf([
        { ...backend, paused },
        { ...backend, backend: 'b' },
      ]),
    ),
    [],
    'it is only unusual',
  );
});

test('a pool without workers and a full queue are incidents', (t) => {
  const full = { ...queue, queued: { interactive: 2_000, batch: 0 } };
  t.deepEqual(shown({ ...fleetView, pools: [{ pool: 'big', workers: 0, models: [queue] }], backends: [] }), [
    [
      'bad',
      'small-chat cannot be answered',
      'the pool big has no worker: requests wait, and then get 503',
      'pool-without-workers',
    ],
  ]);
  t.deepEqual(shown({ ...fleetView, pools: [{ pool: 'default', workers: 1, models: [full] }] }), [
    ['bad', 'The queue of small-chat is full', '2,000 of 2,000 requests wait, and further ones get 503', 'queue-full'],
  ]);
});

test('an incident stays the same one while only its numbers change', (t) => {
  const keyAt = (since: string) =>
    incidentsIn(fleetOf([{ ...backend, models: [broken('small-chat', since)] }]))[0]?.key;
  t.is(keyAt('04:00'), keyAt('05:00'));
});

test('requests that could not be answered are counted since the full hour, of these models, with their accounts', (t) => {
  const counts = {
    ...{ requests: 9, failed: 9, cancelled: 0, promptTokens: 0, cachedTokens: 0, completionTokens: 0 },
    ...{ chargedTokens: 0, overageTokens: 0 },
  };
  const row = (account: string, hour: string, model: string, errors: Record<string, number>) => ({
    ...{ ...counts, account, model, errors, hour: at(hour) },
  });
  const data = [
    row('user:ada', '04:00', 'large-chat', { UPSTREAMS_EXHAUSTED: 2, rate_limit_exceeded: 7 }),
    row('user:bob', '05:00', 'large-chat', { UPSTREAMS_EXHAUSTED: 3, DEADLINE_EXCEEDED: 1 }),
    row('user:ada', '03:00', 'large-chat', { UPSTREAMS_EXHAUSTED: 50 }),
    row('user:ada', '04:00', 'small-chat', { UPSTREAMS_EXHAUSTED: 50 }),
    row('user:cy', '04:00', 'large-chat', { rate_limit_exceeded: 1 }),
  ];
  t.deepEqual(failedSince({ data }, ['large-chat'], seconds('04:00')), {
    requests: 6,
    accounts: [
      { account: 'user:bob', name: undefined },
      { account: 'user:ada', name: undefined },
    ],
  });
});

test('the hours that are counted begin with the first incident, and are at most a week', (t) => {
  const now = seconds('10:20');
  t.deepEqual(hoursOf([], now), { start: seconds('10:00'), end: seconds('10:00') });
  t.deepEqual(hoursOf([{ since: undefined }, { since: seconds('08:59') }], now), {
    start: seconds('08:00'),
    end: seconds('10:00'),
  });
  t.is(hoursOf([{ since: 0 }], now).start, seconds('10:00') - 7 * 86_400);
});

test('a backend stands in words, with the cause that weighs most', (t) => {
  const recent = { backend: 'a', model: 'small-chat', answered: 3, failed: 0, first_token_ms: null };
  const stateOf = (change: object, ofHealth: object = {}, calls: (typeof recent)[] = [recent]) =>
    Object.values(backendState({ ...backend, ...change }, { ...health, ...ofHealth }, calls[0])).join(' ');
  const pause = (kind: string) => ({ pauses: [{ kind, workers: 1, left_ms: 1 }] });
  const paused = { since: at('05:00'), ends_at: at('06:00'), by: 'user:olga', reason: null };
  t.is(stateOf({}), 'answers good');
  t.is(stateOf({}, { answered: 8, failed: 2 }), 'answers warning');
  t.is(stateOf({}, { answered: 0 }, []), 'idle neutral');
  t.is(stateOf({ calls: 8 }), 'busy moving');
  t.is(stateOf(pause('busy')), 'busy moving');
  t.is(stateOf(pause('loading')), 'loading warning');
  t.is(stateOf(pause('account')), 'paused after failures bad');
  t.is(stateOf({}, { breakers: { closed: 0, 'half-open': 0, open: 2 } }), 'paused after failures bad');
  t.is(
    stateOf({}, { breakers: { closed: 1, 'half-open': 0, open: 1 } }),
    'paused after failures in 1 of 2 workers bad',
  );
  t.is(stateOf({}, { breakers: { closed: 0, 'half-open': 2, open: 0 } }), 'being tested warning');
  t.is(stateOf({ paused }, { breakers: away }), 'paused by olga warning');
});
