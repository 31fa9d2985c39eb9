import test from 'ava';
import { noteThresholds, reachedThresholds, untoldThresholds } from '../../../shared/webhooks/quota-thresholds.ts';

test('a threshold is reached exactly at its share of the allowance', (t) => {
  const reached = (chargedTokens: number, limit?: number) => reachedThresholds({ chargedTokens, limit });
  t.deepEqual(reached(79, 100), []);
  t.deepEqual(reached(80, 100), [80]);
  t.deepEqual(reached(94, 100), [80]);
  t.deepEqual(reached(95, 100), [80, 95]);
  t.deepEqual(reached(99, 100), [80, 95]);
  t.deepEqual(reached(100, 100), [80, 95, 100]);
  t.deepEqual(reached(5, 1), [80, 95, 100]);
  t.deepEqual(reached(1_000), [], 'without a limit there is none');
});

test('each threshold of a month has one event, also after the allowance has grown', (t) => {
  t.deepEqual(untoldThresholds({ '2026-11': 0 }, '2026-11', [80, 95]), [80, 95]);
  t.deepEqual(untoldThresholds({ '2026-11': 80 }, '2026-11', [80, 95]), [95]);
  t.deepEqual(untoldThresholds({ '2026-11': 100 }, '2026-11', [80]), []);
  const told = noteThresholds({ '2026-11': 95 }, '2026-11', [80]);
  t.deepEqual(told, { '2026-11': 95 });
});

test('a new month begins with none told, and months before the subscription are not told', (t) => {
  t.deepEqual(untoldThresholds({ '2026-11': 100 }, '2026-12', [80]), [80]);
  t.deepEqual(untoldThresholds({ '2026-11': 0 }, '2026-10', [80]), []);
  t.deepEqual(untoldThresholds({}, '2026-11', [80]), []);
});

test('the last two months are kept, so that late usage of last month has its event once', (t) => {
  const november = noteThresholds({ '2026-10': 80 }, '2026-11', [80]);
  t.deepEqual(november, { '2026-10': 80, '2026-11': 80 });
  t.deepEqual(untoldThresholds(november, '2026-10', [80, 95]), [95]);
  const december = noteThresholds(november, '2026-12', []);
  t.deepEqual(december, { '2026-11': 80, '2026-12': 0 });
  t.deepEqual(untoldThresholds(december, '2026-10', [80, 95]), []);
});
