import test from 'ava';
import {
  minuteOf,
  rangeNameOf,
  stepsOf,
  timesOf,
  timeText,
  withRange,
} from '../../../ingress/console/requests/request-range.ts';

const at = (time: string) => Date.parse(time) / 1_000;
const now = at('2026-11-30T07:20:30Z');
const hour = 3_600;

test('without a filter, the last 24 hours are listed; a link that looks for something goes back 30 days', (t) => {
  t.is(rangeNameOf({}), '24h');
  t.is(rangeNameOf({ account: 'user:alice' }), '24h');
  t.is(rangeNameOf({ code: 'UPSTREAMS_EXHAUSTED' }), '30d');
  t.is(rangeNameOf({ code: 'UPSTREAMS_EXHAUSTED', range: '1h' }), '1h');
  t.is(rangeNameOf({ range: 'toString' }), '24h');
  t.is(rangeNameOf({ start: '2026-11-30T04:00:00Z' }), 'own');
});

test('a range ends now, or has its own times; a time that cannot be read is left out', (t) => {
  t.deepEqual(timesOf({ range: '1h' }, now), { start: now - hour, end: now });
  const own = { start: '2026-11-30T04:00:00Z', end: '2026-11-30T05:00:00Z' };
  t.deepEqual(timesOf(own, now), { start: at(own.start), end: at(own.end) });
  t.deepEqual(timesOf({ start: 'nonsense' }, now), { start: now - 24 * hour, end: now });
});

test('a chart has the hours of its range, at least a day of them, and days if there are too many', (t) => {
  const first = (range: Parameters<typeof stepsOf>[0]) => {
    const { unit, times } = stepsOf(range, now);
    return [unit, times.length, timeText(times[0] ?? 0), timeText(times.at(-1) ?? 0)];
  };
  t.deepEqual(first(timesOf({ range: '24h' }, now)), ['hour', 25, '2026-11-29T07:00:00Z', '2026-11-30T07:00:00Z']);
  t.deepEqual(first(timesOf({ range: '1h' }, now)), ['hour', 24, '2026-11-29T08:00:00Z', '2026-11-30T07:00:00Z']);
  const past = { start: at('2026-11-20T04:00:00Z'), end: at('2026-11-20T05:00:00Z') };
  t.deepEqual(first(past), ['hour', 24, '2026-11-19T16:00:00Z', '2026-11-20T15:00:00Z']);
  t.deepEqual(first(timesOf({ range: '30d' }, now)), ['day', 31, '2026-10-31T00:00:00Z', '2026-11-30T00:00:00Z']);
});

test('the minute of a request, and a range in the address in place of another', (t) => {
  t.deepEqual(minuteOf(now), { start: now - 30, end: now + 30 });
  t.deepEqual(withRange({ range: '7d', model: 'small-chat' }, minuteOf(now)), {
    model: 'small-chat',
    start: '2026-11-30T07:20:00Z',
    end: '2026-11-30T07:21:00Z',
  });
  t.deepEqual(withRange({ start: 'a', end: 'b' }, '1h'), { range: '1h' });
});
