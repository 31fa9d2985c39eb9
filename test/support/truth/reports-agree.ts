import type { ExecutionContext } from 'ava';
import { type GroupName, groupNames } from '../../../ingress/usage/usage-query.ts';
import { usageReportSchema } from '../../../ingress/usage/usage-report.ts';
import type { Prices } from '../../../shared/plan-file/plan-file.ts';
import type { UsageRecord } from '../../../shared/store/usage/usage-record.ts';
import type { Stack } from '../../stack/stack.ts';
import { documentedFetch } from '../documented/documented-fetch.ts';
import { asTexts, expectedRows, readCsv, sorted, type TextRow } from '../report-side.ts';

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
      const unit = groups.includes('hour') ? 'hour' : 'day';
      const rows = sorted(expectedRows(expected.records, { unit, groups, ...prices }).map(answered));
      const found = readCsv(await ask(expected, { group_by: groups.join(), format: 'csv' }));
      t.deepEqual(sorted(found.filter(hasRequests).map(answered)), rows, about);
      const report = usageReportSchema.parse(JSON.parse(await ask(expected, { group_by: groups.join() })));
      const shown = report.data.filter(hasRequests).map((row) => answered(asTexts(row, prices)));
      t.deepEqual(sorted(shown), rows, about);
      const total = expectedRows(expected.records, { unit, groups: [], ...prices }).map(answered);
      t.deepEqual([answered(asTexts(report.total, prices))], total, about);
    }
  }

  const offered = groupNames.filter((name) => name !== 'account');
  for (const [account, bearer] of keys) {
    const own = records.filter((record) => record.account === account);
    if (own.length > 0) await agreesOn({ path: '/billing/usage', bearer, records: own, offered });
  }
  const operator = await stack.identity.token('olga', { admin: true });
  const ofAll = groupNames.filter((name) => name !== 'hour');
  await agreesOn({ path: '/admin/usage', bearer: operator, records, offered: ofAll });
}

function subsetsOf(names: readonly GroupName[]): GroupName[][] {
  const all = Array.from({ length: 2 ** names.length }, (_, bits) =>
    names.filter((_name, index) => bits & (1 << index)),
  );
  return all.filter((groups) => groups.length > 0 && !(groups.includes('day') && groups.includes('hour')));
}

/** Requests that were refused are counted beside these, and their counts can be lost. */
function answered({ errors: _errors, refused: _refused, ...row }: TextRow): TextRow {
  return row;
}

function hasRequests({ requests }: { requests?: unknown }): boolean {
  return Number(requests) > 0;
}
