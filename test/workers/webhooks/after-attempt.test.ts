import test from 'ava';
import {
  afterAttempt,
  failingMsMax,
  pauseAfter,
  reasonToDisable,
  scheduleAfter,
  sinceEnabled,
  withAttempt,
} from '../../../workers/webhooks/after-attempt.ts';
import { deliveryOf, endpointOf, scheduleOf } from '../../shared/store/webhook-records.ts';

const day = 86_400_000;
const start = Date.parse('2026-12-05T10:00:00Z');
const at = (ms: number) => new Date(start + ms);
const attempted = (ms: number, answer: object = { status: 500 }) => ({ at: at(ms), ms: 7, answer, random: () => 1 });

test('a success ends a delivery, and keeps its attempts', (t) => {
  const failed = afterAttempt(deliveryOf(), attempted(0, { error: 'the connection was refused' }));
  const delivered = afterAttempt(failed, attempted(5_000, { status: 204 }));
  t.is(delivered.state, 'delivered');
  t.false('nextAt' in delivered || 'retriedSince' in delivered);
  t.is(delivered.attemptCount, 2);
  t.deepEqual(delivered.attempts, [
    { at: at(0), ms: 7, error: 'the connection was refused' },
    { at: at(5_000), ms: 7, status: 204 },
  ]);
});

for (const status of [199, 300, 302, 400, 404, 429, 500]) {
  test(`${status} is a failure: the delivery waits, and so does its endpoint`, (t) => {
    const waiting = afterAttempt(deliveryOf(), attempted(0, { status }));
    t.like(waiting, { state: 'waiting', nextAt: at(5_000), retriedSince: at(0) });
    const schedule = scheduleAfter(scheduleOf('wh_1', { dueAt: at(0) }), attempted(0, { status }));
    t.like(schedule, { failures: 1, failingSince: at(0), pausedUntil: at(5_000), dueAt: at(5_000) });
  });
}

test('a delivery is tried for three days, however often its endpoint is', (t) => {
  let delivery = deliveryOf();
  let count = 0;
  while (delivery.state === 'waiting') {
    const next = delivery.nextAt?.getTime() ?? 0;
    delivery = afterAttempt(delivery, attempted(count === 0 ? 0 : next - start));
    count += 1;
  }
  t.is(delivery.state, 'failed');
  t.is(delivery.reason, 'no attempt of three days has succeeded');
  t.false('nextAt' in delivery);
  t.is(delivery.attemptCount, count);
  const last = delivery.attempts.at(-1)?.at.getTime() ?? 0;
  t.true(last - start >= 3 * day && last - start < 3 * day + 14 * 3_600_000);
});

test('only the last twenty attempts are kept, and all are counted', (t) => {
  let delivery = deliveryOf();
  for (let count = 0; count < 30; count += 1) delivery = afterAttempt(delivery, attempted(count));
  t.is(delivery.attempts.length, 20);
  t.is(delivery.attemptCount, 30);
  t.deepEqual(delivery.attempts.at(-1)?.at, at(29));
});

test('a success forgets the failures of an endpoint', (t) => {
  const failing = scheduleOf('wh_1', { failures: 5, failingSince: at(-day), pausedUntil: at(0), dueAt: at(0) });
  const working = scheduleAfter(failing, attempted(1, { status: 200 }));
  t.deepEqual(working, scheduleOf('wh_1', { dueAt: at(1) }));
});

test('an endpoint is disabled by 410, or after three days of failures only', (t) => {
  const reason = (failingSince: Date | undefined, answer: object) =>
    reasonToDisable({ failingSince }, attempted(0, answer));
  t.is(reason(undefined, { status: 410 }), 'gone');
  t.is(reason(undefined, { status: 500 }), undefined);
  t.is(reason(at(-3 * day), { status: 500 }), 'failing');
  t.is(reason(at(-3 * day), { error: 'the connection was refused' }), 'failing');
  t.is(reason(at(-3 * day + 1), { status: 500 }), undefined);
  t.is(reason(at(-3 * day), { status: 200 }), undefined);
});

test('failures before an endpoint was enabled, or got its address, are forgotten', (t) => {
  const failing = scheduleOf('wh_1', { failures: 5, failingSince: at(-9 * day), pausedUntil: at(0), dueAt: at(0) });
  t.deepEqual(sinceEnabled(failing, endpointOf({ enabledAt: at(-day) })), scheduleOf('wh_1', { dueAt: at(0) }));
  t.deepEqual(sinceEnabled(failing, endpointOf({ enabledAt: at(-9 * day) })), failing);
  const idle = scheduleOf('wh_1');
  t.deepEqual(sinceEnabled(idle, endpointOf()), idle);
});

test('an attempt is added to a delivery that has changed meanwhile, which still waits', (t) => {
  const again = deliveryOf({ nextAt: at(1), attemptCount: 3 });
  const attempts = [{ at: at(0), ms: 7, status: 204 }];
  t.deepEqual(withAttempt(again, attempted(0, { status: 204 })), { ...again, attempts, attemptCount: 4 });
});

test('pauses grow to 14 hours, and are at random below their bound', (t) => {
  const longest = Array.from({ length: 12 }, (_, index) => pauseAfter({ failures: index + 1, random: () => 1 }));
  const [minute, hour] = [60_000, 3_600_000];
  const bounds = [5_000, minute, 5 * minute, 30 * minute, 2 * hour, 5 * hour, 10 * hour, 14 * hour];
  t.deepEqual(longest, [...bounds, ...Array(4).fill(14 * hour)]);
  t.is(pauseAfter({ failures: 2, random: () => 0.5 }), 30_000);
  t.is(pauseAfter({ failures: 9, random: () => 0 }), 1_000, 'never without a pause');
});

test('a receiver can ask for a longer pause, up to an hour', (t) => {
  const after = (retryAfterMs: number, failures = 2) => pauseAfter({ failures, retryAfterMs, random: () => 1 });
  t.is(after(59_000), 60_000);
  t.is(after(61_000), 61_000);
  t.is(after(3_600_000), 3_600_000);
  t.is(after(999_000_000), 3_600_000);
});

test('with the longest pauses, there are at least ten attempts in three days', (t) => {
  let [at, attempts] = [0, 1];
  while (at < failingMsMax) {
    at += pauseAfter({ failures: attempts, random: () => 1 });
    attempts += 1;
  }
  t.is(failingMsMax, 3 * 86_400_000);
  t.true(attempts >= 10);
});
