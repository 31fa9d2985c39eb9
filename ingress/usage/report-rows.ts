import { validationError } from '../../shared/errors.ts';
import type { UsageDetail } from '../../shared/store/usage/usage-details.ts';
import { compare, type DetailCounts, detailCountNames, noDetailCounts } from '../../shared/store/usage/usage-sums.ts';
import type { Pricing } from './prices.ts';
import type { GroupName } from './usage-schemas.ts';

/** `unpricedTokens` have no price on their day. */
export type Sums = { counts: DetailCounts; cost: bigint; unpricedTokens: number };

/** The usage of one combination of groups; `values` are those of the groups, in their order. */
export type ReportRow = Sums & { values: readonly string[] };

export type ReportOptions = { groups: readonly GroupName[]; pricing: Pricing | undefined };

/** About 40 MB. */
const rowsAtOnceMax = 100_000;

const groupValues: Record<GroupName, (detail: UsageDetail) => string> = {
  account: ({ account }) => account,
  day: ({ day }) => day,
  model: ({ model }) => model,
  key: ({ keyId }) => keyId,
  endpoint: ({ endpoint }) => endpoint,
};

/**
 * Sums details by groups. The details of an account must follow each other, in order of days. Rows come as soon as they are complete: of
 * one account if accounts are a group, and then of one day; else at the end. So the memory does not grow with the length of the report.
 * Fails with `VALIDATION_ERROR` if too many rows would have to be held together.
 */
export async function* reportRows(
  details: AsyncIterable<readonly UsageDetail[]>,
  { groups, pricing, isOfOneAccount }: ReportOptions & { isOfOneAccount: boolean },
): AsyncGenerator<ReportRow[]> {
  const parts = partsOf(groups, isOfOneAccount);
  let rows = new Map<string, ReportRow>();
  let part: string | undefined;
  for await (const piece of details) {
    for (const detail of piece) {
      const next = JSON.stringify(parts.map((name) => groupValues[name](detail)));
      if (part !== undefined && next !== part) {
        yield inOrder(rows);
        rows = new Map();
      }
      part = next;
      add(rows, detail, { groups, pricing });
      if (rows.size > rowsAtOnceMax) throw tooManyRows(isOfOneAccount ? 'day' : 'account');
    }
  }
  yield inOrder(rows);
}

/** The groups that change only when all rows with their values are complete. */
function partsOf(groups: readonly GroupName[], isOfOneAccount: boolean): GroupName[] {
  const hasAccount = groups.includes('account');
  const parts: GroupName[] = hasAccount ? ['account'] : [];
  return groups.includes('day') && (hasAccount || isOfOneAccount) ? [...parts, 'day'] : parts;
}

function add(rows: Map<string, ReportRow>, detail: UsageDetail, { groups, pricing }: ReportOptions): void {
  // A repair leaves a detail that should not exist, with counts of 0.
  if (detail.counts.requests === 0) return;
  const values = groups.map((name) => groupValues[name](detail));
  const id = JSON.stringify(values);
  const row = rows.get(id) ?? { values, ...noSums() };
  rows.set(id, row);
  addSums(row, priced(detail, pricing));
}

function priced(detail: UsageDetail, pricing: Pricing | undefined): Sums {
  const { counts } = detail;
  const cost = pricing?.costOf(detail);
  return {
    counts,
    cost: cost ?? 0n,
    unpricedTokens: cost === undefined ? counts.promptTokens + counts.completionTokens : 0,
  };
}

export function noSums(): Sums {
  return { counts: { ...noDetailCounts }, cost: 0n, unpricedTokens: 0 };
}

/** Adds the second to the first. */
export function addSums(sums: Sums, { counts, cost, unpricedTokens }: Sums): void {
  for (const name of detailCountNames) sums.counts[name] += counts[name];
  sums.cost += cost;
  sums.unpricedTokens += unpricedTokens;
}

function inOrder(rows: ReadonlyMap<string, ReportRow>): ReportRow[] {
  return [...rows.values()].sort(byValues);
}

export function byValues({ values }: ReportRow, { values: others }: ReportRow): number {
  for (const [index, value] of values.entries()) {
    const order = compare(value, others[index] ?? '');
    if (order !== 0) return order;
  }
  return 0;
}

function tooManyRows(group: GroupName) {
  const message = `there are more than ${rowsAtOnceMax} rows that must be sorted together: add "${group}", or remove a group`;
  return validationError([{ path: 'group_by', message }]);
}
