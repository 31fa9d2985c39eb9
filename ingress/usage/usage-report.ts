import { z } from 'zod';
import { validationError } from '../../shared/errors.ts';
import type { Log } from '../../shared/process/log.ts';
import {
  compare,
  type DetailCounts,
  detailCountsSchema,
  usageCountsSchema,
  usageMonthSchema,
} from '../../shared/store/usage/usage-record.ts';
import { answerCsvFile, csvLineOf, textCell, whileConnected } from '../api/csv-file.ts';
import { count, date } from '../api/response-fields.ts';
import { named } from '../api/route.ts';
import type { AppContext } from '../request-state.ts';
import {
  addSums,
  byValues,
  firstTokensOf,
  formatCost,
  noSums,
  type Pricing,
  type ReportedDetail,
  type ReportRow,
  reportRows,
  type Sums,
} from './report-rows.ts';
import { type GroupName, groupNames, type ReportQuery, type TopOrder } from './usage-query.ts';

type Report = {
  details: AsyncIterable<readonly ReportedDetail[]>;
  query: ReportQuery;
  pricing: Pricing | undefined;
  isOfOneAccount: boolean;
  /** Only the rows with the most. */
  top?: Top | undefined;
};

type Top = { by: TopOrder; count: number };

type ReportDeps = { log: Log; now?: () => number };

/** Returns the report, or writes it as a file of CSV. */
export async function answerReport(
  ctx: AppContext,
  report: Report,
  deps: ReportDeps,
): Promise<UsageReport | undefined> {
  const { query, pricing, top, ...source } = report;
  const rows = reportRows(whileConnected(ctx, source.details), { ...query, pricing, ...source });
  if (query.format === 'csv') {
    await answerCsv(ctx, top === undefined ? rows : topOf(rows, top), { query, pricing, ...deps });
    return undefined;
  }
  return presentReport(rows, { ...query, pricing, top });
}

async function* topOf(rows: AsyncIterable<readonly ReportRow[]>, top: Top): AsyncGenerator<ReportRow[]> {
  let kept: ReportRow[] = [];
  for await (const piece of rows) kept = addToTop(kept, piece, top);
  yield withMost(kept, top);
}

type Csv = Pick<Report, 'query' | 'pricing'> & ReportDeps;

async function answerCsv(ctx: AppContext, rows: AsyncGenerator<ReportRow[]>, csv: Csv): Promise<void> {
  const { query, pricing, ...deps } = csv;
  const { start, end } = query.range;
  const columns = { unit: query.unit, groups: query.groups, pricing };
  const file = { name: `usage-${start}-${end}.csv`, header: csvHeader(columns), what: 'a report of usage' };
  await answerCsvFile(ctx, { ...file, pieces: linesOf(rows, columns) }, deps);
}

async function* linesOf(rows: AsyncIterable<readonly ReportRow[]>, columns: Columns): AsyncGenerator<string[]> {
  for await (const piece of rows) yield piece.map((row) => csvLine(row, columns));
}

/** About 4 MB of JSON. */
const rowsMax = 10_000;

/** In the order of the columns and fields of a report. */
const shownCounts = [
  'requests',
  'failed',
  'cancelled',
  'promptTokens',
  'cachedTokens',
  'completionTokens',
  'chargedTokens',
  'overageTokens',
] as const satisfies readonly (keyof DetailCounts)[];
type ShownCounts = Pick<DetailCounts, (typeof shownCounts)[number]>;

type Rows = AsyncIterable<readonly ReportRow[]>;
type Shape = Pick<ReportQuery, 'unit' | 'range' | 'groups'> & { pricing: Pricing | undefined };

/** The report as an object. Its total is that of all rows, also if `top` leaves out some. */
export async function presentReport(
  rows: Rows,
  { unit, range, groups, pricing, top }: Shape & { top?: Top | undefined },
): Promise<UsageReport> {
  const total = noSums();
  let kept: ReportRow[] = [];
  let rowCount = 0;
  for await (const piece of rows) {
    for (const row of piece) addSums(total, row);
    rowCount += piece.length;
    if (top !== undefined) kept = addToTop(kept, piece, top);
    else if (kept.length + piece.length > rowsMax) throw tooManyRowsError();
    else kept.push(...piece);
  }
  // The store has an order of accounts of its own.
  kept = top === undefined ? kept.sort(byValues) : withMost(kept, top);
  return {
    ...range,
    unit: 'tokens',
    groupBy: [...groups],
    ...(pricing !== undefined && { currency: pricing.currency }),
    total: presentSums(total, { unit, pricing }),
    rowCount,
    data: kept.map((row) => ({ ...presentValues(row, groups), ...presentSums(row, { unit, pricing }) })),
  };
}

/** Adds rows to those of which the first ones are kept in the end. Sorts only when there are twice as many. */
function addToTop(kept: ReportRow[], piece: readonly ReportRow[], top: Top): ReportRow[] {
  const all = [...kept, ...piece];
  return all.length < 2 * top.count ? all : withMost(all, top);
}

const amounts: Record<TopOrder, (row: ReportRow) => bigint> = {
  charged: ({ counts }) => BigInt(counts.chargedTokens),
  cost: ({ cost }) => cost,
  failed: ({ counts }) => BigInt(counts.failed),
};

/** The rows with the most. Of equally many failed requests those with the most refused ones; of equal rows the first in order. */
function withMost(rows: readonly ReportRow[], { by, count }: Top): ReportRow[] {
  const amountOf = amounts[by];
  const byRefused = (one: ReportRow, other: ReportRow) => (by === 'failed' ? other.refused - one.refused : 0);
  const byAmount = (one: ReportRow, other: ReportRow) =>
    Number(amountOf(other) - amountOf(one)) || byRefused(one, other);
  return rows.toSorted((one, other) => byAmount(one, other) || byValues(one, other)).slice(0, count);
}

function presentValues({ values }: ReportRow, groups: readonly GroupName[]): Record<string, string | null> {
  // Usage without a key has an empty id.
  return Object.fromEntries(groups.map((name, index) => [name, values[index] || null]));
}

function presentSums(sums: Sums, { unit, pricing }: Pick<Shape, 'unit' | 'pricing'>) {
  const { counts, cost, unpricedTokens } = sums;
  const shown = Object.fromEntries(shownCounts.map((name) => [name, counts[name]])) as ShownCounts; // it has all of them
  return {
    ...shown,
    ...(unit === 'hour' && presentHour(sums)),
    ...(pricing !== undefined && { cost: formatCost(cost), unpricedTokens }),
  };
}

function presentHour({ counts, errors, refused }: Sums) {
  const sorted = [...errors].sort(([one], [other]) => compare(one, other));
  return { refused, errors: Object.fromEntries(sorted), firstTokenMs: firstTokensOf(counts) };
}

function tooManyRowsError() {
  const message = `there are more than ${rowsMax} rows: use format=csv, or fewer groups or days`;
  return validationError([{ path: 'group_by', message }]);
}

type Columns = Omit<Shape, 'range'>;

const hourColumns = ['refused', 'errors', 'firstTokenMsP50', 'firstTokenMsP95'];
const costColumns = ['cost', 'currency', 'unpricedTokens'];

/** The names of the columns, as a line. */
export function csvHeader({ unit, groups, pricing }: Columns): string {
  const ofHours = unit === 'hour' ? hourColumns : [];
  return csvLineOf([...groups, ...shownCounts, ...ofHours, ...(pricing === undefined ? [] : costColumns)]);
}

export function csvLine(row: ReportRow, { unit, pricing }: Columns): string {
  const { values, counts, cost, unpricedTokens } = row;
  const amounts = pricing === undefined ? [] : [formatCost(cost), pricing.currency, String(unpricedTokens)];
  const ofHours = unit === 'hour' ? hourCells(row) : [];
  return csvLineOf([
    ...values.map(textCell),
    ...shownCounts.map((name) => String(counts[name])),
    ...ofHours,
    ...amounts,
  ]);
}

/** Errors as JSON; no first token is an empty cell. */
function hourCells(row: ReportRow): string[] {
  const { refused, errors, firstTokenMs } = presentHour(row);
  return [refused, textCell(JSON.stringify(errors)), firstTokenMs?.p50 ?? '', firstTokenMs?.p95 ?? ''].map(String);
}

const usageCounts = usageCountsSchema.shape;
const usageDay = z.strictObject({ day: date, model: z.string(), ...usageCounts });

export const usageSchema = named(
  'Usage',
  z.strictObject({
    month: usageMonthSchema,
    unit: z.literal('tokens'),
    total: z.strictObject(usageCounts),
    data: z.array(usageDay).meta({ description: 'By the day (UTC) of admission, then by model.' }),
  }),
);
const { shape } = detailCountsSchema.pick(
  Object.fromEntries(shownCounts.map((name) => [name, true])) as Record<keyof ShownCounts, true>, // it has all of them
);
const ofHours = {
  refused: count.optional().meta({
    description: 'Requests that were refused before they were admitted; they are in no other number. Only with `hour`.',
  }),
  errors: z
    .record(z.string(), count)
    .optional()
    .meta({ description: 'Failed and refused requests by the code of their error. Only with `hour`.' }),
  firstTokenMs: z.strictObject({ p50: count, p95: count }).nullable().optional().meta({
    description:
      'Percentiles of the time to the first token, from a fixed histogram. Only with `hour`; null: none had one.',
  }),
};
const sums = {
  ...shape,
  ...ofHours,
  cost: z
    .string()
    .optional()
    .meta({ description: 'The cost of the tokens that have a price, exact. Only if the operator has set prices.' }),
  unpricedTokens: count.optional().meta({ description: 'Tokens without a price on their day. Only with `cost`.' }),
};
export const usageReportSchema = named(
  'UsageReport',
  z.strictObject({
    start: z.string().meta({ description: 'The first day, or hour with `hour`.' }),
    end: z.string().meta({ description: 'The last day or hour; it is included.' }),
    unit: z.literal('tokens'),
    groupBy: z.array(z.enum(groupNames)),
    currency: z.string().optional().meta({ description: 'Of `cost`, ISO 4217.' }),
    total: z.strictObject(sums).meta({ description: 'Of all usage in the range.' }),
    rowCount: count.meta({ description: 'How many rows there are, also those that `limit` leaves out.' }),
    data: z
      .array(
        z.strictObject({
          account: z.string().optional(),
          name: z.string().optional().meta({ description: 'The display name of the account.' }),
          day: date.optional().meta({ description: 'The day of admission, UTC.' }),
          hour: z.iso.datetime().optional().meta({ description: 'The beginning of the hour of admission.' }),
          model: z.string().optional().meta({ description: 'The own name of the model, if an alias was used.' }),
          key: z
            .string()
            .nullable()
            .optional()
            .meta({ description: 'The id of the API key that was used; null: a sign-in token.' }),
          endpoint: z.string().optional().meta({ description: 'The path of the endpoint.' }),
          ...sums,
        }),
      )
      .meta({ description: 'At most 10,000 rows, with a field for each group, by their values.' }),
  }),
);

/** A month in its own form, or a range of days. */
export const usageOrReportSchema = named('UsageOrReport', z.union([usageSchema, usageReportSchema]));
export type Usage = z.infer<typeof usageSchema>;
export type UsageReport = z.infer<typeof usageReportSchema>;
export type UsageRow = UsageReport['data'][number];
