import { validationError } from '../../shared/errors.ts';
import type { Prices } from '../../shared/plan-file/plan-file.ts';
import {
  compare,
  type DetailCounts,
  detailCountNames,
  firstTokenBoundsMs,
  firstTokenNames,
  noDetailCounts,
} from '../../shared/store/usage/usage-record.ts';
import type { HourSum, Refusals, UsageDetail, UsageUnit } from '../../shared/store/usage/usage-tables.ts';
import type { GroupName } from './usage-query.ts';

/**
 * `unpricedTokens` have no price on their day. Of hours also `errors`: requests by the code of their error, and `refused`: those of them
 * that were refused before they were admitted.
 */
export type Sums = {
  counts: DetailCounts;
  cost: bigint;
  unpricedTokens: number;
  errors: ReadonlyMap<string, number>;
  refused: number;
};

/** A detail, or refusals as one without counts. */
export type ReportedDetail = UsageDetail & { refused?: number };

/** The usage of one combination of groups; `values` are those of the groups, in their order. */
export type ReportRow = Sums & { values: readonly string[] };

type ReportOptions = { unit?: UsageUnit; groups: readonly GroupName[]; pricing: Pricing | undefined };

/** About 40 MB. */
const rowsAtOnceMax = 100_000;

const groupValues: Record<GroupName, (detail: UsageDetail) => string> = {
  account: ({ account }) => account,
  day: ({ start }) => start,
  hour: ({ start }) => `${start}:00:00Z`,
  model: ({ model }) => model,
  key: ({ keyId }) => keyId,
  endpoint: ({ endpoint }) => endpoint,
};

/**
 * Sums details by groups. The details of an account must follow each other, in order of days. Rows come as soon as they are complete: of
 * one account if accounts are a group, and then of one day; else, and always of hours, at the end. So the memory does not grow with the
 * length of a report of days.
 * Fails with `VALIDATION_ERROR` if too many rows would have to be held together.
 */
export async function* reportRows(
  details: AsyncIterable<readonly ReportedDetail[]>,
  { unit = 'day', groups, pricing, isOfOneAccount }: ReportOptions & { isOfOneAccount: boolean },
): AsyncGenerator<ReportRow[]> {
  const parts = unit === 'day' ? partsOf(groups, isOfOneAccount) : [];
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
      if (rows.size > rowsAtOnceMax) throw tooManyRows(unit === 'day' && !isOfOneAccount ? 'account' : unit);
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

function add(rows: Map<string, ReportRow>, detail: ReportedDetail, { groups, pricing }: ReportOptions): void {
  // A repair leaves a detail that should not exist, with counts of 0.
  if (detail.counts.requests === 0 && detail.refused === undefined) return;
  const values = groups.map((name) => groupValues[name](detail));
  const id = JSON.stringify(values);
  const row = rows.get(id) ?? { values, ...noSums() };
  rows.set(id, row);
  addSums(row, priced(detail, pricing));
}

function priced(detail: ReportedDetail, pricing: Pricing | undefined): Sums {
  const { counts, unit, code, refused = 0 } = detail;
  const cost = pricing?.costOf(detail);
  const errors = unit === 'day' ? 0 : counts.failed + refused;
  return {
    counts,
    cost: cost ?? 0n,
    unpricedTokens: cost === undefined ? counts.promptTokens + counts.completionTokens : 0,
    errors: new Map(errors === 0 ? [] : [[code, errors]]),
    refused,
  };
}

const noGroup = '-';

/** The sum of an hour as a detail: what is no group of it is empty. */
export function asDetailOf(start: string, { account, model, code, counts }: HourSum): ReportedDetail {
  const place = { account, month: start.slice(0, 7), unit: 'hour', start, model, keyId: '', endpoint: '' } as const;
  return { ...place, code, counts, lastEntry: '' };
}

/** Refusals as a detail without counts. They are of no model and endpoint, and of no account if the caller is not known. */
export function asDetail({ account, start, keyId, code, requests, entry }: Refusals): ReportedDetail {
  const place = {
    account: account === '' ? noGroup : account,
    month: start.slice(0, 7),
    unit: 'hour',
    start,
    model: noGroup,
    keyId,
    endpoint: noGroup,
  } as const;
  return { ...place, code, counts: noDetailCounts, lastEntry: entry, refused: requests };
}

export function noSums(): Sums {
  return { counts: { ...noDetailCounts }, cost: 0n, unpricedTokens: 0, errors: new Map(), refused: 0 };
}

/** Adds the second to the first. */
export function addSums(sums: Sums, { counts, cost, unpricedTokens, errors, refused }: Sums): void {
  for (const name of detailCountNames) sums.counts[name] += counts[name];
  sums.cost += cost;
  sums.unpricedTokens += unpricedTokens;
  if (errors.size > 0) {
    const all = new Map(sums.errors);
    for (const [code, requests] of errors) all.set(code, (all.get(code) ?? 0) + requests);
    sums.errors = all;
  }
  sums.refused += refused;
}

/** Percentiles of the time to the first token, in milliseconds. */
export type FirstTokens = { p50: number; p95: number };

/** As exact as the classes of `firstTokenBoundsMs`: within one, times are taken as evenly spread. Null without a first token. */
export function firstTokensOf(counts: DetailCounts): FirstTokens | null {
  const classes = firstTokenNames.map((name) => counts[name]);
  const total = classes.reduce((sum, count) => sum + count, 0);
  return total === 0 ? null : { p50: percentile(classes, total * 0.5), p95: percentile(classes, total * 0.95) };
}

/** The last class has no bound: its times are taken as its lower one. */
function percentile(classes: readonly number[], rank: number): number {
  let before = 0;
  for (const [index, count] of classes.entries()) {
    const from = firstTokenBoundsMs[index - 1] ?? 0;
    const to = firstTokenBoundsMs[index] ?? from;
    if (before + count >= rank && count > 0) return Math.round(from + ((rank - before) / count) * (to - from));
    before += count;
  }
  return 0;
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

/** A price in the plan file has at most this many digits after the point. */
const priceDigits = 9;
/** Prices are for a million tokens. */
const costDigits = priceDigits + 6;

/** Amounts are whole numbers of 10⁻¹⁵ of the currency, so that every sum is exact (contract.md#j1-usage-reports). */
export type Pricing = { currency: string; costOf(detail: PricedUsage): bigint | undefined };

type PricedUsage = Pick<UsageDetail, 'start' | 'model' | 'counts'>;

/** Undefined if the plan file has no prices. The cost of usage is undefined if its model has no price on its day. */
export function createPricing({ prices, currency }: Prices): Pricing | undefined {
  if (prices === undefined) return undefined;
  return {
    currency,
    costOf({ start, model, counts: { promptTokens, cachedTokens, completionTokens } }) {
      const price = prices[model]?.findLast(({ from }) => from <= start.slice(0, from.length));
      if (price === undefined) return undefined;
      const { prompt, cached = prompt, completion } = price;
      return (
        BigInt(promptTokens - cachedTokens) * unitsOf(prompt) +
        BigInt(cachedTokens) * unitsOf(cached) +
        BigInt(completionTokens) * unitsOf(completion)
      );
    },
  };
}

function unitsOf(price: string): bigint {
  const [whole = '', fraction = ''] = price.split('.');
  return BigInt(whole + fraction.padEnd(priceDigits, '0'));
}

/** A decimal text without an exponent and without zeros at its end: `0.0000036`. */
export function formatCost(cost: bigint): string {
  const digits = String(cost).padStart(costDigits + 1, '0');
  const [whole, fraction] = [digits.slice(0, -costDigits), digits.slice(-costDigits).replace(/0+$/, '')];
  return fraction === '' ? whole : `${whole}.${fraction}`;
}
