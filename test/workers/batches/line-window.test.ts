import test from 'ava';
import { createMayQueue, hasRoom, type LineInProgress, mayQueueFor } from '../../../workers/batches/line-window.ts';
import {
  isUnavailable,
  type ModelHealth,
  mayProbe,
  withAnswer,
  withFailure,
  withProbe,
} from '../../../workers/batches/model-health.ts';

const now = 100_000;

function linesOf(count: number, change: Partial<LineInProgress> = {}): LineInProgress[] {
  const request = { requestId: 'r', customId: 'c', number: 1, failures: 0, losses: 0, model: 'm' };
  const queued = { state: 'queued' as const, since: now, isDoubtful: false };
  return Array.from({ length: count }, (_, index) => ({ line: index + 1, ...request, ...queued, ...change }));
}

test('an account has as many lines in progress as its plan allows, queued or started', (t) => {
  t.true(hasRoom({ inProgress: linesOf(7), atOnce: 8, now }));
  t.false(hasRoom({ inProgress: linesOf(8), atOnce: 8, now }));
  t.false(hasRoom({ inProgress: [...linesOf(4), ...linesOf(4, { state: 'started' })], atOnce: 8, now }));
});

test('no account has more than 256 lines in progress, even if its plan sets no limit or a higher one', (t) => {
  for (const atOnce of [undefined, 1_000]) {
    t.true(hasRoom({ inProgress: linesOf(255), atOnce, now }));
    t.false(hasRoom({ inProgress: linesOf(256), atOnce, now }));
  }
});

test('sixteen lines wait in the queue of a model, not counting started and postponed ones', (t) => {
  t.is(mayQueueFor({ inProgress: linesOf(100, { state: 'postponed' }), now }, 'm'), 'yes');
  const started = linesOf(100, { state: 'started' });
  t.is(mayQueueFor({ inProgress: [...started, ...linesOf(15)], now }, 'm'), 'yes');
  t.is(mayQueueFor({ inProgress: [...started, ...linesOf(16)], now }, 'm'), 'wait');
  t.is(mayQueueFor({ inProgress: linesOf(16, { model: 'other' }), now }, 'm'), 'yes');
});

test('a model without an event for ten seconds delays no other', (t) => {
  const waiting = (since: number) => mayQueueFor({ inProgress: linesOf(16, { since }), now }, 'm');
  t.is(waiting(now - 10_000), 'wait');
  t.is(waiting(now - 10_001), 'skip');
  const oneStarted = [...linesOf(16, { since: 0 }), ...linesOf(1, { state: 'started' })];
  t.is(mayQueueFor({ inProgress: oneStarted, now }, 'm'), 'wait');
});

test('postponed lines and lines of a stuck model do not count towards the limit of the plan', (t) => {
  t.true(hasRoom({ inProgress: linesOf(8, { state: 'postponed' }), atOnce: 8, now }));
  t.true(hasRoom({ inProgress: linesOf(8, { since: now - 10_001 }), atOnce: 8, now }));
  t.false(hasRoom({ inProgress: linesOf(8, { since: now - 10_000 }), atOnce: 8, now }));
  t.false(hasRoom({ inProgress: linesOf(256, { state: 'postponed' }), atOnce: 8, now }), 'they count towards 256');
});

test('lines of an unavailable model are skipped, except a probe when one is due', (t) => {
  const down: ModelHealth = new Map([['m', { failuresInRow: 8, probedAt: now }]]);
  const verdictAt = (at: number, inProgress: LineInProgress[] = []) =>
    createMayQueue({ inProgress: () => inProgress, health: () => down, now: at })('m');
  t.is(verdictAt(now + 2_999), 'skip');
  t.is(verdictAt(now + 3_000), 'probe');
  t.is(verdictAt(now + 3_000, linesOf(16)), 'skip', 'the queue of the model is full');
});

test('counts the lines of a model once, and reads its health each time', (t) => {
  let [counts, health]: [number, ModelHealth] = [0, new Map()];
  const inProgress = () => {
    counts++;
    return linesOf(16);
  };
  const mayQueue = createMayQueue({ inProgress, health: () => health, now });
  t.deepEqual([mayQueue('m'), mayQueue('m'), mayQueue('other')], ['wait', 'wait', 'yes']);
  t.is(counts, 2);
  health = new Map([['other', { failuresInRow: 8, probedAt: now }]]);
  t.is(mayQueue('other'), 'skip');
});

function failing(times: number): ModelHealth {
  let health: ModelHealth = new Map();
  for (let failures = 0; failures < times; failures++) health = withFailure(health, 'm');
  return health;
}

test('only the model that failed eight times in a row is unavailable', (t) => {
  t.false(isUnavailable(failing(7), 'm'));
  t.true(isUnavailable(failing(8), 'm'));
  t.false(isUnavailable(failing(8), 'other'));
});

test('an answer resets the failures', (t) => {
  t.false(isUnavailable(withFailure(withAnswer(failing(7), 'm'), 'm'), 'm'));
  t.false(isUnavailable(withAnswer(failing(20), 'm'), 'm'));
});

test('an unavailable model is probed once in three seconds, also after a failed probe', (t) => {
  t.true(mayProbe(failing(8), 'm', now));
  const probed = withProbe(failing(8), 'm', now);
  t.false(mayProbe(probed, 'm', now + 2_999));
  t.true(mayProbe(probed, 'm', now + 3_000));
  t.false(mayProbe(withFailure(probed, 'm'), 'm', now + 2_999));
});

test('an available model is not probed', (t) => {
  t.false(mayProbe(failing(8), 'other', now));
  const available = failing(7);
  t.false(mayProbe(available, 'm', now));
  t.is(withProbe(available, 'm', now), available);
});
