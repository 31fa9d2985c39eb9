import type { ExecutionContext } from 'ava';
import { type GroupName, groupNames } from '../../../ingress/usage/usage-query.ts';
import { usageReportSchema } from '../../../ingress/usage/usage-report.ts';
import type { Prices } from '../../../shared/plan-file/plan-file.ts';
import type { UsageRecord } from '../../../shared/store/usage/usage-record.ts';
import type { Stack } from '../../stack/stack.ts';
import { documentedFetch } from '../documented/documented-fetch.ts';
import { expectedRows, readCsv, sorted, type TextRow } from '../report-side.ts';

type Given = { stack: Stack; keys: ReadonlyMap<string, string>; records: readonly UsageRecord[]; prices: Prices };
type Expected = { path: string; bearer: string; records: readonly UsageRecord[]; offered: readonly GroupName[] };

/** Requires that reports of usage by every combination of groups, as JSON and as CSV, are the sums of these records. */
export async function reportsAgree(t: ExecutionContext, { stack, keys, records, prices }: Given): Promise<void> {
  const days = records.map(({ admittedAt }) => admittedAt.toISOString().slice(0, 10)).sort();
  const range = { start: days[0] ?? '', end: days.at(-1) ?? '' };

  async function ask({ path, bearer }: Expected, query: Record<string, string>): Promise<string> {
    const url = `${stack.ingresses[0]?.url}${path}?${new URLSearchParams({ ...range, ...query })}`;
    const answer = await documentedFetch(url, { headers: { authorization: `Bearer ${bearer}` } });
    const text = await answer.text();
    t.is(answer.status, 200, text);
    return text;
  }

  async function agreesOn(expected: Expected): Promise<void> {
    for (const groups of subsetsOf(expected.offered)) {
      const about = `${expected.path} by ${groups}`;
      const rows = sorted(expectedRows(expected.records, { groups, ...prices }));
      t.deepEqual(sorted(readCsv(await ask(expected, { group_by: groups.join(), format: 'csv' }))), rows, about);
      const report = usageReportSchema.parse(JSON.parse(await ask(expected, { group_by: groups.join() })));
      t.deepEqual(sorted(report.data.map((row) => asTexts(row, prices))), rows, about);
      t.deepEqual([asTexts(report.total, prices)], expectedRows(expected.records, { groups: [], ...prices }), about);
    }
  }

  const offered = groupNames.filter((name) => name !== 'account');
  for (const [account, bearer] of keys) {
    const own = records.filter((record) => record.account === account);
    if (own.length > 0) await agreesOn({ path: '/billing/usage', bearer, records: own, offered });
  }
  const operator = await stack.identity.token('olga', { admin: true });
  await agreesOn({ path: '/admin/usage', bearer: operator, records, offered: groupNames });
}

function subsetsOf(names: readonly GroupName[]): GroupName[][] {
  const all = Array.from({ length: 2 ** names.length }, (_, bits) =>
    names.filter((_name, index) => bits & (1 << index)),
  );
  return all.filter(({ length }) => length > 0);
}

function asTexts(row: object, { prices, currency }: Prices): TextRow {
  const texts = Object.entries(row).map(([name, value]) => [name, value === null ? '' : String(value)]);
  return { ...Object.fromEntries(texts), ...(prices && { currency }) };
}
