import test from 'ava';
import { worstMinute } from './worst-minute.ts';

const at = (sentAt: number, amount = 1, tookMs = 0) => ({ sentAt, endedAt: sentAt + tookMs, amount });

test('the worst minute is found at any start', (t) => {
  const edge = [...Array.from({ length: 100 }, () => at(59_000)), ...Array.from({ length: 100 }, () => at(61_000))];
  t.is(worstMinute([at(0), ...edge]), 200);
  t.is(worstMinute([]), 0);
});

test('a minute ends after 60 s, and includes what is at its end', (t) => {
  t.is(worstMinute([at(0, 5), at(60_000, 7)]), 12);
  t.is(worstMinute([at(0, 5), at(60_001, 7)]), 7);
});

test('a request that may have been decided after the minute does not count', (t) => {
  t.is(worstMinute([at(0), at(59_990, 1, 20)]), 1);
  t.is(worstMinute([at(0), at(59_990, 1, 10)]), 2);
});
