import test from 'ava';
import {
  formatBytes,
  formatCost,
  formatCount,
  formatDay,
  formatLimit,
  formatMonth,
  formatMs,
  formatRest,
  formatShare,
  formatShort,
} from '../../../ingress/console/page/format.ts';

test('numbers are formatted in the language of the page', (t) => {
  t.is(formatCount(1_234_567), '1,234,567');
  t.is(formatShort(1_250_000), '1.3M');
  t.deepEqual([formatShare(0, 0), formatShare(0, 9), formatShare(49_800, 61_200)], ['–', '0 %', '81 %']);
  t.is(formatLimit(null), 'no limit');
  t.is(formatLimit(0), '0');
  t.is(formatDay('2026-12-01'), '1 Dec 2026');
  t.is(formatMonth('2026-12'), 'December 2026');
  t.deepEqual([0, 1023, 1024, 12_900_000, 2 ** 41].map(formatBytes), [
    '0 bytes',
    '1023 bytes',
    '1.0 KiB',
    '12.3 MiB',
    '2.0 TiB',
  ]);
});

test('a time that is left has its two largest units, and is over at 0', (t) => {
  const minute = 60_000;
  t.deepEqual(
    [-5, 0, 1, 59_001, minute, 60 * minute - 1, 90 * minute, 1_440 * minute, 10_079 * minute].map(formatRest),
    ['0 s', '0 s', '1 s', '1 min 0 s', '1 min 0 s', '1 h 0 min', '1 h 30 min', '1 d 0 h', '6 d 23 h'],
  );
});

test('a cost has two digits after the point, and a smaller one is not 0', (t) => {
  const shown = (cost: string) => formatCost(cost, 'USD');
  t.is(shown('0'), '0.00 USD');
  t.is(shown('1.5'), '1.50 USD');
  t.is(shown('1234.5678901234'), '1,234.57 USD');
  t.is(shown('0.01'), '0.01 USD');
  t.is(shown('0.0099'), '< 0.01 USD');
});

test('a duration has three digits, and one that is past its largest unit', (t) => {
  t.deepEqual([0, 999.4, 999.7, 1_000, 9_999, 12_345, 59_900, 59_960, 125_000].map(formatMs), [
    '0 ms',
    '999 ms',
    '1.00 s',
    '1.00 s',
    '10.0 s',
    '12.3 s',
    '59.9 s',
    '1 min 0 s',
    '2 min 5 s',
  ]);
});
