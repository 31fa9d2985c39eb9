import { validationError } from '../../shared/errors.ts';
import type { DetailCounts } from '../../shared/store/usage/usage-sums.ts';
import { formatCost, type Pricing } from './prices.ts';
import { addSums, byValues, noSums, type ReportRow, type Sums } from './report-rows.ts';
import type { ReportQuery } from './usage-query.ts';
import type { GroupName, UsageReport } from './usage-schemas.ts';

/** About 4 MB of JSON. */
const rowsMax = 10_000;

/** In the order of the columns and fields of a report. */
export const shownCounts = [
  'requests',
  'failed',
  'cancelled',
  'promptTokens',
  'cachedTokens',
  'completionTokens',
  'chargedTokens',
  'overageTokens',
] as const satisfies readonly (keyof DetailCounts)[];

type Rows = AsyncIterable<readonly ReportRow[]>;
type Shape = Pick<ReportQuery, 'range' | 'groups'> & { pricing: Pricing | undefined };

/** The report as an object. Its total is that of all rows, also if `top` leaves out some. */
export async function presentReport(
  rows: Rows,
  { range, groups, pricing, top }: Shape & { top?: number | undefined },
): Promise<UsageReport> {
  const total = noSums();
  let kept: ReportRow[] = [];
  for await (const piece of rows) {
    for (const row of piece) addSums(total, row);
    if (top !== undefined) kept = addToTop(kept, piece, top);
    else if (kept.length + piece.length > rowsMax) throw tooManyRows();
    else kept.push(...piece);
  }
  // The store has an order of accounts of its own.
  kept = top === undefined ? kept.sort(byValues) : mostCharged(kept, top);
  return {
    ...range,
    unit: 'tokens',
    groupBy: [...groups],
    ...(pricing !== undefined && { currency: pricing.currency }),
    total: presentSums(total, pricing),
    data: kept.map((row) => ({ ...presentValues(row, groups), ...presentSums(row, pricing) })),
  };
}

/** Adds rows to those of which the first ones are kept in the end. Sorts only when there are twice as many. */
export function addToTop(kept: ReportRow[], piece: readonly ReportRow[], count: number): ReportRow[] {
  const all = [...kept, ...piece];
  return all.length < 2 * count ? all : mostCharged(all, count);
}

/** The rows with the most charged tokens; of equal ones the first in order. */
export function mostCharged(rows: readonly ReportRow[], count: number): ReportRow[] {
  return rows
    .toSorted((one, other) => other.counts.chargedTokens - one.counts.chargedTokens || byValues(one, other))
    .slice(0, count);
}

function presentValues({ values }: ReportRow, groups: readonly GroupName[]): Record<string, string | null> {
  // Usage without a key has an empty id.
  return Object.fromEntries(groups.map((name, index) => [name, values[index] || null]));
}

function presentSums({ counts, cost, unpricedTokens }: Sums, pricing: Pricing | undefined) {
  const shown = Object.fromEntries(shownCounts.map((name) => [name, counts[name]])) as DetailCounts; // it has all of them
  return { ...shown, ...(pricing !== undefined && { cost: formatCost(cost), unpricedTokens }) };
}

function tooManyRows() {
  const message = `there are more than ${rowsMax} rows: use format=csv, or fewer groups or days`;
  return validationError([{ path: 'group_by', message }]);
}
