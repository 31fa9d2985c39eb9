import { shownCounts } from './present-report.ts';
import { formatCost, type Pricing } from './prices.ts';
import type { ReportRow } from './report-rows.ts';
import type { GroupName } from './usage-schemas.ts';

export type Columns = { groups: readonly GroupName[]; pricing: Pricing | undefined };

/** The names of the columns, as a line. */
export function csvHeader({ groups, pricing }: Columns): string {
  return lineOf([...groups, ...shownCounts, ...(pricing === undefined ? [] : ['cost', 'currency', 'unpricedTokens'])]);
}

export function csvLine({ values, counts, cost, unpricedTokens }: ReportRow, { pricing }: Columns): string {
  const amounts = pricing === undefined ? [] : [formatCost(cost), pricing.currency, String(unpricedTokens)];
  return lineOf([...values.map(textCell), ...shownCounts.map((name) => String(counts[name])), ...amounts]);
}

/** A line of CSV (RFC 4180), with its end. */
function lineOf(cells: readonly string[]): string {
  return `${cells.join()}\r\n`;
}

/**
 * No name of an account, model, key or endpoint begins like a formula of a spreadsheet. If one did, a quotation mark in front of it would
 * make it a text.
 */
function textCell(text: string): string {
  const safe = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\r\n]|^\s|\s$/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}
