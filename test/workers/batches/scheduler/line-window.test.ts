import test from 'ava';
import type { LineInHand } from '../../../../workers/batches/scheduler/batch-feed.ts';
import { hasRoom, mayQueueFor } from '../../../../workers/batches/scheduler/line-window.ts';

const now = 100_000;

function inHandOf(count: number, change: Partial<LineInHand> = {}): LineInHand[] {
  const place = { number: 1, failures: 0, losses: 0, from: 0, length: 1, model: 'm' };
  const held = { requestId: 'r', customId: 'c', state: 'queued' as const, since: now };
  return Array.from({ length: count }, (_, index) => ({ line: index + 1, ...place, ...held, ...change }));
}

test('an account has as many lines in hand as its plan allows, started or not', (t) => {
  t.true(hasRoom({ inHand: inHandOf(7), atOnce: 8, now }));
  t.false(hasRoom({ inHand: inHandOf(8), atOnce: 8, now }));
  t.false(hasRoom({ inHand: [...inHandOf(4), ...inHandOf(4, { state: 'started' })], atOnce: 8, now }));
});

test('no account has more than 256 in hand, also where its plan says nothing, or more', (t) => {
  for (const atOnce of [undefined, 1_000]) {
    t.true(hasRoom({ inHand: inHandOf(255), atOnce, now }));
    t.false(hasRoom({ inHand: inHandOf(256), atOnce, now }));
  }
});

test('sixteen lines wait in the queue of a model, and those that have started, or were put off, do not count', (t) => {
  t.is(mayQueueFor({ inHand: inHandOf(100, { state: 'put off' }), now }, 'm'), 'yes');
  const started = inHandOf(100, { state: 'started' });
  t.is(mayQueueFor({ inHand: [...started, ...inHandOf(15)], now }, 'm'), 'yes');
  t.is(mayQueueFor({ inHand: [...started, ...inHandOf(16)], now }, 'm'), 'wait');
  t.is(mayQueueFor({ inHand: inHandOf(16, { model: 'other' }), now }, 'm'), 'yes');
});

test('a model of which nothing was heard for ten seconds holds up no other', (t) => {
  const waiting = (since: number) => mayQueueFor({ inHand: inHandOf(16, { since }), now }, 'm');
  t.is(waiting(now - 10_000), 'wait');
  t.is(waiting(now - 10_001), 'pass over');
  const oneStarted = [...inHandOf(16, { since: 0 }), ...inHandOf(1, { state: 'started' })];
  t.is(mayQueueFor({ inHand: oneStarted, now }, 'm'), 'wait');
});

test('lines that were put off, or wait where nothing moves, take nothing of what an account may have at once', (t) => {
  t.true(hasRoom({ inHand: inHandOf(8, { state: 'put off' }), atOnce: 8, now }));
  t.true(hasRoom({ inHand: inHandOf(8, { since: now - 10_001 }), atOnce: 8, now }));
  t.false(hasRoom({ inHand: inHandOf(8, { since: now - 10_000 }), atOnce: 8, now }));
  t.false(hasRoom({ inHand: inHandOf(256, { state: 'put off' }), atOnce: 8, now }), 'there is an end to that, too');
});
