import test from 'ava';
import type { Batch } from '../../../shared/batches/batch.ts';
import { ApiError } from '../../../shared/errors.ts';
import {
  type AccountEvent,
  type AccountState,
  initialAccountState,
  linesInProgress,
  mayQueueMore,
  reduceAccount,
} from '../../../workers/batches/account-state.ts';
import type { NextLine, RefusedNextLine } from '../../../workers/batches/files/batch-feed.ts';
import type { LineChange } from '../../../workers/batches/lines/line-events.ts';
import { isUnavailable } from '../../../workers/batches/model-health.ts';
import { batchOf, retryOf } from '../../shared/store/batch-records.ts';

const now = 1_000_000;
const batch = batchOf({ id: 'batch_1' });
const other = batchOf({ id: 'batch_2' });
const plan = { name: 'free', suspended: false };

/** Only the fields that the reducer reads. */
function takenLine(line: number, change: Partial<NextLine> = {}): NextLine {
  const request = { requestId: `req_${line}`, customId: `line ${line}`, number: 1, failures: 0, losses: 0 };
  return { line, ...request, from: 0, length: 1, call: { model: 'm' } as NextLine['call'], ...change };
}

function after(events: readonly AccountEvent[], from: AccountState = initialAccountState): AccountState {
  return events.reduce((state, event) => reduceAccount(state, event).state, from);
}

const queued = (line: number, change: Partial<NextLine> = {}): AccountEvent => ({
  type: 'queued',
  batch: batch.id,
  line: takenLine(line, change),
  now,
});

const eventOf = (line: number, change: LineChange, number = 1): AccountEvent => ({
  type: 'line',
  event: { batch: batch.id, line, number, ...change },
  now: now + 5,
});

/** One batch whose results are counted, with these lines in progress. */
const holding = (...lines: number[]) =>
  after([
    { type: 'account read', plan, running: [batch] },
    { type: 'opened', batch },
    { type: 'check count', batch: batch.id, isDone: false, now },
    ...lines.map((line) => queued(line)),
  ]);

const lineIn = (state: AccountState, line: number) => state.batches.get(batch.id)?.lines.get(line);
const isUncounted = (state: AccountState) => state.batches.get(batch.id)?.isUncounted;

test('opens the first 32 running batches, and holds them once they are open', (t) => {
  const running = Array.from({ length: 40 }, (_, index) => batchOf({ id: `batch_${index}` }));
  const read = reduceAccount(initialAccountState, { type: 'account read', plan, running });
  t.deepEqual(
    read.actions,
    running.slice(0, 32).map((each) => ({ do: 'open', batch: each })),
  );
  t.is(read.state.batches.size, 0);
  const opened = after([{ type: 'opened', batch }], read.state);
  t.deepEqual([...opened.batches.keys()], [batch.id]);
});

test('a batch that is held takes its new version from the store, and keeps its lines', (t) => {
  const state = holding(1);
  const changed: Batch = { ...batch, position: { line: 2, byte: 100 } };
  const next = reduceAccount(state, { type: 'account read', plan, running: [changed] });
  t.deepEqual(next.actions, []);
  t.is(next.state.batches.get(batch.id)?.batch, changed);
  t.is(lineIn(next.state, 1), lineIn(state, 1));
});

test('closes batches that are not in progress any more, with their lines', (t) => {
  const state = after([{ type: 'opened', batch: other }], holding(1));
  const next = reduceAccount(state, { type: 'listed', running: [other] });
  t.deepEqual(next.actions, [{ do: 'close', batch: batch.id }]);
  t.deepEqual([...next.state.batches.keys()], [other.id]);
  t.deepEqual(linesInProgress(next.state), []);
});

test('a queued line is in progress from then on', (t) => {
  t.deepEqual(lineIn(holding(1), 1), {
    ...{ requestId: 'req_1', customId: 'line 1', line: 1, number: 1, failures: 0, losses: 0, model: 'm' },
    ...{ state: 'queued', since: now, isDoubtful: false },
  });
});

test('a queued line keeps the alias that its client sent', (t) => {
  const call = { model: 'm', requestedModel: 'old-name' } as NextLine['call'];
  t.like(lineIn(after([queued(1, { call })], holding()), 1), { model: 'm', requestedModel: 'old-name' });
});

test('a line that could not be queued comes back a second later, as the same request', (t) => {
  const next = reduceAccount(holding(1), { type: 'not queued', batch: batch.id, line: takenLine(1), now });
  const retry = { batch: batch.id, line: 1, number: 1, failures: 0, losses: 0, notBefore: new Date(now + 1_000) };
  t.deepEqual(next.actions, [{ do: 'retry line', batch: batch.id, retry }]);
  t.is(lineIn(next.state, 1), undefined);
});

test('if lines of a model cannot be queued, those of other models do not wait for them', (t) => {
  let state = holding();
  for (let failure = 1; failure <= 8; failure++) {
    t.false(isUnavailable(state.health, 'm'));
    state = reduceAccount(state, { type: 'not queued', batch: batch.id, line: takenLine(1), now }).state;
  }
  t.true(isUnavailable(state.health, 'm'));
});

test('a refused line ends, and its batch is to be counted', (t) => {
  const next = reduceAccount(holding(), { type: 'rejected', batch: batch.id, line: 4 });
  t.deepEqual(next.actions, [{ do: 'end line', batch: batch.id, line: 4 }]);
  t.true(isUncounted(next.state));
});

test('a refused line that could not be ended comes back', (t) => {
  const { call, ...position } = takenLine(4);
  const wrong: RefusedNextLine = { ...position, refused: new ApiError('VALIDATION_ERROR', 'No.') };
  const { actions } = reduceAccount(holding(), { type: 'not queued', batch: batch.id, line: wrong, now });
  t.like(actions, { 0: { do: 'retry line', retry: { line: 4, number: 1 } }, length: 1 });
});

test('events of a worker change the state of the line', (t) => {
  for (const type of ['started', 'postponed'] as const) {
    const next = reduceAccount(holding(1), eventOf(1, { type }));
    t.like(lineIn(next.state, 1), { state: type, since: now + 5 });
    t.deepEqual(next.actions, []);
  }
});

test('a line that ended is taken from the feed, and the batch is to be counted', (t) => {
  const next = reduceAccount(holding(1, 2), eventOf(1, { type: 'ended', answered: false }));
  t.deepEqual(next.actions, [
    { do: 'end line', batch: batch.id, line: 1 },
    { do: 'refresh if done', batch: batch.id },
  ]);
  t.deepEqual(
    linesInProgress(next.state).map(({ line }) => line),
    [2],
  );
  t.true(isUncounted(next.state));
});

test('a line to retry goes back to the feed, and counts as a failure of its model only if its backends failed', (t) => {
  for (const [failures, failuresInRow] of [
    [0, undefined],
    [1, 1],
  ] as const) {
    const retry = retryOf(batch.id, 1, { failures });
    const next = reduceAccount(holding(1), eventOf(1, { type: 'retry', retry }));
    t.deepEqual(next.actions, [{ do: 'retry line', batch: batch.id, retry }]);
    t.is(lineIn(next.state, 1), undefined);
    t.is(next.state.health.get('m')?.failuresInRow, failuresInRow);
  }
});

test('the first answer of an unavailable model wakes its lines', (t) => {
  const down = { ...holding(1, 2), health: new Map([['m', { failuresInRow: 8, probedAt: 0 }]]) };
  const first = reduceAccount(down, eventOf(1, { type: 'ended', answered: true }));
  t.deepEqual(
    first.actions.map((action) => action.do),
    ['end line', 'wake', 'refresh if done'],
  );
  t.false(first.state.health.has('m'));
  const second = reduceAccount(first.state, eventOf(2, { type: 'ended', answered: true }));
  t.deepEqual(
    second.actions.map((action) => action.do),
    ['end line', 'refresh if done'],
  );
});

test('a line that is queued for an unavailable model is its probe', (t) => {
  const down = { ...holding(), health: new Map([['m', { failuresInRow: 8, probedAt: 0 }]]) };
  t.is(after([queued(1)], down).health.get('m')?.probedAt, now);
});

test('events of other requests, lines and batches change nothing', (t) => {
  const state = holding(1);
  const ended = { type: 'ended', answered: true } as const;
  const ignored: AccountEvent[] = [
    eventOf(1, ended, 2),
    eventOf(9, ended),
    { type: 'line', event: { batch: other.id, line: 1, number: 1, ...ended }, now },
    { type: 'rejected', batch: other.id, line: 1 },
    { type: 'recovered', batch: batch.id, line: { ...lineOf(state), number: 2 }, retry: undefined },
    { type: 'check lines', batch: other.id, now: now + 60_000 },
  ];
  for (const event of ignored) {
    const next = reduceAccount(state, event);
    t.is(next.state, state, 'the same object, by which the scheduler knows that it has no work');
    t.deepEqual(next.actions, []);
  }
});

function lineOf(state: AccountState) {
  const line = lineIn(state, 1);
  if (line === undefined) throw new Error('the line is not in progress');
  return line;
}

test('lines without an event for two seconds are looked up, again at each check', (t) => {
  const state = holding(1);
  const checkAt = (at: number) => reduceAccount(state, { type: 'check lines', batch: batch.id, now: at });
  t.deepEqual(checkAt(now + 2_000).actions, []);
  const { actions } = checkAt(now + 2_001);
  t.deepEqual(actions, [{ do: 'recover lines', batch, plan: 'free', lines: [lineOf(state)] }]);
});

test('a dropped line is looked up at the next check, once, and is current until an event of it arrives', (t) => {
  const dropped = after([eventOf(1, { type: 'dropped' })], holding(1, 2));
  const checked = reduceAccount(dropped, { type: 'check lines', batch: batch.id, now });
  const [action] = checked.actions;
  if (action?.do !== 'recover lines') return t.fail();
  t.deepEqual(
    action.lines.map(({ line }) => line),
    [1],
  );
  t.is(lineIn(checked.state, 1), action.lines[0], 'the search starts with the line that is held');
  t.deepEqual(reduceAccount(checked.state, { type: 'check lines', batch: batch.id, now }).actions, []);
});

test('a recovered line ends or comes back, and its batch is to be counted', (t) => {
  const state = holding(1);
  const recovered = { type: 'recovered', batch: batch.id, line: lineOf(state) } as const;
  const ended = reduceAccount(state, { ...recovered, retry: undefined });
  t.deepEqual(ended.actions, [{ do: 'end line', batch: batch.id, line: 1 }]);
  const retry = retryOf(batch.id, 1, { failures: 3 });
  const again = reduceAccount(state, { ...recovered, retry });
  t.deepEqual(again.actions, [{ do: 'retry line', batch: batch.id, retry }]);
  for (const next of [ended, again]) {
    t.deepEqual(linesInProgress(next.state), []);
    t.true(isUncounted(next.state));
  }
  t.false(again.state.health.has('m'), 'the retry may be an old one');
});

test('counts a batch if a line has ended since the last count, or its feed is done', (t) => {
  const check = (state: AccountState, isDone: boolean) =>
    reduceAccount(state, { type: 'check count', batch: batch.id, isDone, now });
  t.deepEqual(check(holding(1), false).actions, []);
  t.deepEqual(check(holding(), true).actions, [{ do: 'count', batch, now }]);
  const ended = after([eventOf(1, { type: 'ended', answered: true })], holding(1));
  const counted = check(ended, false);
  t.deepEqual(counted.actions, [{ do: 'count', batch, now }]);
  t.deepEqual(check(counted.state, false).actions, []);
});

test('a batch that has run is refreshed soon, and one whose feed was wrong is closed and opened again', (t) => {
  const countedAs = (counted: 'running' | 'ran' | 'mistaken') =>
    reduceAccount(holding(), { type: 'counted', batch: batch.id, counted });
  t.deepEqual(countedAs('running').actions, []);
  t.deepEqual(countedAs('ran').actions, [{ do: 'refresh soon' }]);
  const mistaken = countedAs('mistaken');
  t.deepEqual(mistaken.actions, [{ do: 'close', batch: batch.id }]);
  const read = reduceAccount(mistaken.state, { type: 'account read', plan, running: [batch] });
  t.deepEqual(read.actions, [{ do: 'open', batch }]);
});

test('lines may be queued when the plan is known and the account is not suspended, up to the limit of the plan', (t) => {
  const plans = { free: { batchRequestsAtOnce: 2 } } as unknown as Parameters<typeof mayQueueMore>[1]; // the only field that is read
  t.false(mayQueueMore(initialAccountState, plans, now));
  t.true(mayQueueMore(holding(1), plans, now));
  t.false(mayQueueMore(holding(1, 2), plans, now));
  const suspended = after([{ type: 'account read', plan: { ...plan, suspended: true }, running: [batch] }], holding());
  t.false(mayQueueMore(suspended, plans, now));
});

test('no event changes the state that it is applied to', (t) => {
  const state = holding(1);
  const copy = structuredClone(state);
  const retry = retryOf(batch.id, 1);
  const line = lineOf(state);
  const events: AccountEvent[] = [
    { type: 'listed', running: [] },
    { type: 'account read', plan: { ...plan, suspended: true }, running: [batch, other] },
    { type: 'opened', batch: other },
    queued(2),
    { type: 'not queued', batch: batch.id, line: takenLine(1), now },
    { type: 'rejected', batch: batch.id, line: 1 },
    eventOf(1, { type: 'retry', retry }),
    eventOf(1, { type: 'ended', answered: true }),
    eventOf(1, { type: 'dropped' }),
    { type: 'check lines', batch: batch.id, now: now + 10_000 },
    { type: 'recovered', batch: batch.id, line, retry },
    { type: 'check count', batch: batch.id, isDone: true, now },
    { type: 'counted', batch: batch.id, counted: 'mistaken' },
  ];
  for (const event of events) reduceAccount(state, event);
  t.deepEqual(state, copy);
});
