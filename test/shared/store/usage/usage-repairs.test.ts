import test from 'ava';
import type { UsageRecord } from '../../../../shared/store/usage/usage-record.ts';
import { compareMonth } from '../../../../shared/store/usage/usage-repairs.ts';
import {
  byDetail,
  countsOf,
  type DetailChange,
  detailId,
  type KeptDetail,
  placeOf,
  type UsageTables,
  type UsageUnit,
} from '../../../../shared/store/usage/usage-tables.ts';
import { entryAt, sumOf, usageRecords } from '../usage-records.ts';

const month = { account: 'user:ann', month: '2026-12' };
const upTo = entryAt(1_000);

/** Tables with these records and details. It counts how often the records are read from the start. */
function tablesOf(records: readonly UsageRecord[], details: readonly KeptDetail[]) {
  const inOrder = details.toSorted((one, other) => (detailId(one.detail) < detailId(other.detail) ? -1 : 1));
  let scans = 0;
  const tables: Pick<UsageTables, 'readRecords' | 'readDetails'> = {
    async readRecords(_month, { after, upTo: last, limit }) {
      if (after === '') scans += 1;
      return records.filter(({ entry }) => entry > after && entry <= last).slice(0, limit);
    },
    async readDetails(_month, { unit, limit, ...page }) {
      const isNext = ({ detail }: KeptDetail) =>
        detail.unit === unit && ('after' in page ? detailId(detail) > detailId(page.after) : detail.start >= page.from);
      return inOrder.filter(isNext).slice(0, limit);
    },
  };
  return { tables, scans: () => scans };
}

function keptOf(records: readonly UsageRecord[], unit: UsageUnit = 'day'): KeptDetail[] {
  return byDetail(records, (record) => placeOf(month, record, unit)).map(({ unsummed, lastEntry, ...place }) => ({
    detail: { ...place, counts: countsOf(unsummed), lastEntry },
    repairs: 0,
  }));
}

async function compare(tables: ReturnType<typeof tablesOf>['tables'], detailsTo: string, detailsMax = 100) {
  const changes: DetailChange[] = [];
  const onWrong = async (wrong: DetailChange[]) => void changes.push(...wrong);
  const total = await compareMonth(tables, month, {
    unit: 'day',
    from: '',
    sumTo: upTo,
    detailsTo,
    onWrong,
    detailsMax,
  });
  return { total, changes };
}

const records = usageRecords(300, (index) => ({
  model: `model-${index % 5}`,
  admittedAt: new Date(Date.UTC(2026, 11, 1 + (index % 6))),
}));

test('details that match their records are right, however few of them fit in memory', async (t) => {
  for (const detailsMax of [100, 7, 1]) {
    const { tables, scans } = tablesOf(records, keptOf(records));
    const { total, changes } = await compare(tables, upTo, detailsMax);
    t.deepEqual(total, sumOf(records).total, 'the total is counted once');
    t.deepEqual(changes, []);
    t.is(scans(), detailsMax === 100 ? 1 : 6, 'the records are read again for each group of days');
  }
});

test('each wrong, missing and superfluous detail is found once, with what it should be', async (t) => {
  for (const detailsMax of [100, 7, 1]) {
    const kept = keptOf(records);
    const [wrong, missing, ...right] = kept;
    if (wrong === undefined || missing === undefined) return t.fail();
    const { detail } = wrong;
    const spoilt = { detail: { ...detail, counts: { ...detail.counts, cachedTokens: 1 } }, repairs: 3 };
    const superfluous = { detail: { ...detail, model: 'never used' }, repairs: 0 };
    const { changes } = await compare(tablesOf(records, [spoilt, superfluous, ...right]).tables, upTo, detailsMax);
    const found = new Map(changes.map((change) => [detailId(change.detail), change]));
    t.is(changes.length, 3);
    t.deepEqual(found.get(detailId(detail)), { detail: { ...detail, lastEntry: upTo }, kept: spoilt });
    t.deepEqual(found.get(detailId(missing.detail))?.kept, undefined);
    t.deepEqual(found.get(detailId(missing.detail))?.detail.counts, missing.detail.counts);
    t.is(found.get(detailId(superfluous.detail))?.detail.counts.requests, 0);
  }
});

test('a detail may be ahead of the others, and counts its own records up to its own last entry', async (t) => {
  const behind = entryAt(150);
  const ahead = keptOf(records.slice(0, 150)).map((kept, index) =>
    index === 0 ? (keptOf(records).find(({ detail }) => detailId(detail) === detailId(kept.detail)) ?? kept) : kept,
  );
  const { changes, total } = await compare(tablesOf(records, ahead).tables, behind);
  t.deepEqual(changes, []);
  t.deepEqual(total, sumOf(records).total);
});
