import test from 'ava';
import { createPricing, reportRows } from '../../../ingress/usage/report-rows.ts';
import { type GroupName, groupNames } from '../../../ingress/usage/usage-query.ts';
import { csvHeader, csvLine, presentReport } from '../../../ingress/usage/usage-report.ts';
import { noDetailCounts, type UsageRecord } from '../../../shared/store/usage/usage-record.ts';
import type { UsageDetail } from '../../../shared/store/usage/usage-tables.ts';
import { usageRecords } from '../../shared/store/usage-records.ts';
import { seededRandom } from '../../support/random.ts';
import { asTexts, detailsOf, expectedRows, readCsv, sorted } from '../../support/report-side.ts';
import { someOf } from '../../support/size.ts';

const range = { start: '2026-11-01', end: '2027-02-28' };
const prices = {
  'small-chat': [
    { from: '2026-11-01', prompt: '0.15', cached: '0.075', completion: '0.6' },
    { from: '2026-12-01', prompt: '0.000000001', completion: '999999999.999999999' },
  ],
  'of,"names"': [{ from: '2027-01-15', prompt: '3', cached: '0', completion: '12.5' }],
};
const currency = 'EUR';

function randomRecords(seed: number, accounts: readonly string[]): UsageRecord[] {
  const random = seededRandom(seed);
  return usageRecords(150, () => {
    const promptTokens = Math.floor(random.between(0, 100_000));
    return {
      ...{ account: random.oneOf(accounts), model: random.oneOf(['small-chat', 'of,"names"', 'line\r\nbreak']) },
      ...{
        keyId: random.oneOf(['key_1', 'key_2', '']),
        endpoint: random.oneOf(['/v1/chat/completions', '/v1/rerank']),
      },
      admittedAt: new Date(random.between(Date.parse('2026-11-01'), Date.parse('2027-02-28T23:59:59Z'))),
      ...{ promptTokens, cachedTokens: Math.floor(random.between(0, promptTokens)) },
      ...{ completionTokens: Math.floor(random.between(0, 50_000)), overage: random() < 0.2 },
      outcome: random.oneOf(['completed', 'failed', 'cancelled', 'lost'] as const),
      firstTokenMs: random.oneOf([null, 0, 1, 50, 51, 199, 700, 9_000, 30_000, 90_000]),
    };
  });
}

function subsetsOf(names: readonly GroupName[]): GroupName[][] {
  const all = Array.from({ length: 2 ** names.length }, (_, bits) =>
    names.filter((_name, index) => bits & (1 << index)),
  );
  return all.filter(({ length }) => length > 0);
}

for (const isOfOneAccount of [true, false]) {
  const accounts = isOfOneAccount ? ['user:ann'] : ['user:ann', 'user:bob', 'device:1', 'user:"x", y'];
  const names = isOfOneAccount ? groupNames.filter((name) => name !== 'account') : groupNames;
  const combinations = subsetsOf(names).filter((groups) => !(groups.includes('day') && groups.includes('hour')));

  test(`by every combination of groups, a report of ${accounts.length} accounts is the sum of the records, as JSON and as CSV`, async (t) => {
    for (const seed of someOf([1], [1, 2])) {
      const records = randomRecords(seed, accounts);
      for (const groups of combinations) {
        const unit = groups.includes('hour') ? 'hour' : 'day';
        for (const known of [
          { currency, prices },
          { currency, prices: undefined },
        ]) {
          const pricing = createPricing(known);
          const expected = expectedRows(records, { unit, groups, ...known });
          const rowsOf = () => reportRows(detailsOf(records, { unit }), { groups, pricing, isOfOneAccount });

          const report = await presentReport(rowsOf(), { unit, range, groups, pricing });
          const shown = report.data.map((row) => asTexts(row, known));
          t.deepEqual(sorted(shown), sorted(expected), groups.join());
          const order = report.data.map((row) => groups.map((name) => String(row[name] ?? '')));
          t.deepEqual(order, order.toSorted(byTexts), 'rows are in the order of their groups');
          const [total] = expectedRows(records, { unit, groups: [], ...known });
          t.deepEqual(asTexts(report.total, known), total);

          const lines = (await Array.fromAsync(rowsOf())).flat().map((row) => csvLine(row, { unit, groups, pricing }));
          const found = readCsv([csvHeader({ unit, groups, pricing }), ...lines].join(''));
          t.deepEqual(sorted(found), sorted(expected), groups.join());
        }
      }
    }
  });
}

function byTexts(one: readonly string[], other: readonly string[]): number {
  const index = one.findIndex((text, place) => text !== other[place]);
  return index === -1 ? 0 : (one[index] ?? '') < (other[index] ?? '') ? -1 : 1;
}

const options = { pricing: undefined, isOfOneAccount: false };
const detail = (given: Partial<UsageDetail> = {}): UsageDetail => ({
  ...{
    account: 'user:ann',
    month: '2026-12',
    unit: 'day',
    start: '2026-12-05',
    code: '',
    model: 'small-chat',
    keyId: 'key_1',
  },
  ...{ endpoint: '/v1/chat/completions', counts: { ...noDetailCounts, requests: 1, chargedTokens: 5 }, lastEntry: '' },
  ...given,
});

test('rows come as soon as their account or day is complete, and are never held together', async (t) => {
  let read = 0;
  async function* many(): AsyncGenerator<UsageDetail[]> {
    for (; read < 1_000; read += 1) {
      yield [detail({ account: `user:${String(read).padStart(4, '0')}` })];
    }
  }
  let seen = 0;
  for await (const rows of reportRows(many(), { ...options, groups: ['account', 'model'] })) {
    seen += rows.length;
    t.true(read - seen <= 2, 'no more is read than is needed');
  }
  t.is(seen, 1_000);
});

test('a detail that a repair has emptied is not a row', async (t) => {
  const empty = detail({ keyId: 'key_2', counts: noDetailCounts });
  async function* two(): AsyncGenerator<UsageDetail[]> {
    yield [detail(), empty];
  }
  const rows = (await Array.fromAsync(reportRows(two(), { ...options, groups: ['key'] }))).flat();
  t.deepEqual(
    rows.map(({ values }) => values),
    [['key_1']],
  );
});

async function* keys(count: number): AsyncGenerator<UsageDetail[]> {
  for (let from = 0; from < count; from += 500) {
    yield Array.from({ length: Math.min(500, count - from) }, (_, index) =>
      detail({ keyId: `key_${from + index}`, counts: { ...noDetailCounts, requests: 1, chargedTokens: from + index } }),
    );
  }
}

test('a report of 10,000 rows is answered as JSON, and one more row is an error that says what to do', async (t) => {
  const rowsOf = (count: number) => reportRows(keys(count), { ...options, groups: ['key'] });
  const shape = { unit: 'day', range, groups: ['key'], pricing: undefined } as const;
  t.is((await presentReport(rowsOf(10_000), shape)).data.length, 10_000);
  await t.throwsAsync(presentReport(rowsOf(10_001), shape), {
    code: 'VALIDATION_ERROR',
    message: /group_by: there are more than 10000 rows: use format=csv, or fewer groups or days/,
  });
});

test('more than 100,000 rows that must be sorted together are an error, and the same rows by account are not', async (t) => {
  t.is((await Array.fromAsync(reportRows(keys(100_000), { ...options, groups: ['key'] }))).flat().length, 100_000);
  await t.throwsAsync(Array.fromAsync(reportRows(keys(100_001), { ...options, groups: ['key'] })), {
    code: 'VALIDATION_ERROR',
    message: /more than 100000 rows that must be sorted together: add "account"/,
  });
  async function* accounts(): AsyncGenerator<UsageDetail[]> {
    for await (const piece of keys(100_001)) yield piece.map((one) => ({ ...one, account: one.keyId }));
  }
  let count = 0;
  for await (const rows of reportRows(accounts(), { ...options, groups: ['account', 'key'] })) count += rows.length;
  t.is(count, 100_001);
});

test('the rows with the most charged tokens are those of all, in their order, and the total is that of all', async (t) => {
  const shape = { unit: 'day', range, groups: ['key'], pricing: undefined } as const;
  const report = await presentReport(reportRows(keys(20_000), { ...options, groups: ['key'] }), {
    ...shape,
    top: { by: 'charged', count: 3 },
  });
  t.deepEqual(
    report.data.map(({ key, chargedTokens }) => [key, chargedTokens]),
    [
      ['key_19999', 19_999],
      ['key_19998', 19_998],
      ['key_19997', 19_997],
    ],
  );
  t.is(report.total.requests, 20_000);
  async function* equal(): AsyncGenerator<UsageDetail[]> {
    for (const account of ['user:c', 'user:a', 'user:b']) yield [detail({ account })];
  }
  const ties = await presentReport(reportRows(equal(), { ...options, groups: ['account'] }), {
    ...{ unit: 'day', range, groups: ['account'], pricing: undefined, top: { by: 'charged', count: 2 } },
  });
  t.deepEqual(
    ties.data.map(({ account }) => account),
    ['user:a', 'user:b'],
  );
});
