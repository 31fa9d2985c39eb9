import { z } from 'zod';
import { validationError } from '../../shared/errors.ts';
import { type DayRange, hoursKeptDays } from '../../shared/store/usage/usage-store.ts';
import type { UsageUnit } from '../../shared/store/usage/usage-tables.ts';
import { limitParameter } from '../api/lists.ts';

const reportFormats = ['json', 'csv'] as const;
type Format = (typeof reportFormats)[number];

/** In the order in which reports have them. */
export const groupNames = ['account', 'day', 'hour', 'model', 'key', 'endpoint'] as const;
export type GroupName = (typeof groupNames)[number];

/** What a report is asked for. `range`: of hours if `unit` says so. */
export type ReportQuery = { unit: UsageUnit; range: DayRange; groups: readonly GroupName[]; format: Format };

const daysMax = 366;
const hourMs = 3_600_000;
const dayMs = 24 * hourMs;
const day = z.iso.date('expected a day as YYYY-MM-DD');
const hour = /^\d{4}-\d{2}-\d{2}T([01]\d|2[0-3])$/;
const dayOrHour = z
  .string()
  .refine(
    (text) => day.safeParse(text.slice(0, 10)).success && (text.length === 10 || hour.test(text)),
    'expected a day as YYYY-MM-DD, or an hour as YYYY-MM-DDTHH',
  );
/** Of one account, and of all accounts. */
export const usualGroups: readonly GroupName[] = ['day', 'model'];
export const usualGroupsOfAll: readonly GroupName[] = ['account'];

const reportParameters = {
  start: dayOrHour.optional().meta({
    description:
      'The first day, UTC; the first day of the current month by default. An hour, `2026-03-01T14`, asks for hours, as `group_by=hour` does; then today by default.',
    examples: ['2026-03-01'],
  }),
  end: dayOrHour.optional().meta({
    description: `The last day or hour, UTC; today by default. At most ${daysMax} days, and ${hoursKeptDays} with \`group_by=hour\`.`,
    examples: ['2026-03-31'],
  }),
  format: z.enum(reportFormats).optional().meta({ description: 'JSON by default.' }),
};

export const usageQuery = z
  .strictObject({
    month: z
      .string()
      .regex(/^\d{4}-(0[1-9]|1[0-2])$/, 'expected a month as YYYY-MM')
      .optional()
      .meta({
        description:
          'A month, UTC, in place of `start` and `end`; without other parameters, the current month by default.',
        examples: ['2026-03'],
      }),
    ...reportParameters,
    group_by: groupsParameter(
      groupNames.filter((name) => name !== 'account'),
      usualGroups,
    ),
  })
  .superRefine(({ month, start, end, group_by }, { addIssue }) => {
    if (month === undefined) return;
    const others = Object.entries({ start, end, group_by }).filter(([, value]) => value !== undefined);
    for (const [name] of others) addIssue({ code: 'custom', path: [name], message: 'expected without month' });
  });

export const topRows = { usual: 100, max: 1_000 };
/** By what the rows with the most are chosen. */
const topOrders = ['charged', 'cost', 'failed'] as const;
export type TopOrder = (typeof topOrders)[number];

/** Sums of hours over all accounts are read hour by hour. */
const daysOfAllMax = 8;

export const allUsageQuery = z
  .strictObject({
    ...reportParameters,
    group_by: groupsParameter(groupNames, usualGroupsOfAll),
    order: z
      .enum(['groups', ...topOrders])
      .default('groups')
      .meta({
        description:
          'Unless it is `groups`, only the rows with the most charged tokens, cost or failed requests, most first.',
      }),
    limit: limitParameter(topRows)
      .removeDefault()
      .optional()
      .meta({
        description: `How many rows, only with another \`order\` than \`groups\`; ${topRows.usual} by default.`,
        documentedAs: z.int().min(1).max(topRows.max).optional(),
      }),
  })
  .refine(({ order, limit }) => order !== 'groups' || limit === undefined, {
    path: ['limit'],
    message: 'expected with an order of the most',
  });

/** A list of groups, which comes out in the order of reports. */
function groupsParameter(names: readonly GroupName[], usual: readonly GroupName[]) {
  const message = `expected some of ${names.join(', ')}, each once, separated by commas`;
  return z
    .string()
    .refine((text) => {
      const wanted = text.split(',');
      return wanted.every((name) => isOneOf(names, name)) && new Set(wanted).size === wanted.length;
    }, message)
    .optional()
    .meta({
      description: `What rows are grouped by: some of ${names.map((name) => `\`${name}\``).join(', ')}, separated by commas; \`${usual.join()}\` by default.`,
      examples: [names.slice(-2).join()],
    });
}

function isOneOf(names: readonly string[], name: string): boolean {
  return names.includes(name);
}

type Query = {
  start?: string | undefined;
  end?: string | undefined;
  group_by?: string | undefined;
  format?: Format | undefined;
};

/** `now` decides which day is today. Fails with `VALIDATION_ERROR` for a range that is empty or too long. */
export function reportQueryOf(asked: Query, { now, usual }: { now: number; usual: readonly GroupName[] }): ReportQuery {
  const wanted = asked.group_by?.split(',') ?? usual;
  const groups = groupNames.filter((name) => isOneOf(wanted, name));
  const isOfHours = groups.includes('hour') || [asked.start, asked.end].some((time) => time?.includes('T'));
  const unit = isOfHours ? 'hour' : 'day';
  if (isOfHours && groups.includes('day'))
    throw validationError([{ path: 'group_by', message: 'expected day or hour, not both' }]);
  const range = unit === 'hour' ? hoursIn(asked, { now, daysMax: hoursKeptDays }) : daysIn(asked, now);
  return { unit, range, groups, format: asked.format ?? 'json' };
}

function daysIn(asked: Query, now: number): DayRange {
  const today = new Date(now).toISOString().slice(0, 10);
  const { start = `${today.slice(0, 7)}-01`, end = today } = asked;
  const days = (Date.parse(end) - Date.parse(start)) / dayMs + 1;
  return within({ start, end }, { days, daysMax });
}

/** A day stands for its first hour, or as the end for its last one. */
function hoursIn(asked: Query, { now, daysMax }: { now: number; daysMax: number }): DayRange {
  const today = new Date(now).toISOString().slice(0, 10);
  const { start: from = today, end: to = today } = asked;
  const [start, end] = [from.padEnd(13, 'T00'), to.padEnd(13, 'T23')];
  const hours = (Date.parse(`${end}:00Z`) - Date.parse(`${start}:00Z`)) / hourMs + 1;
  return within({ start, end }, { days: hours / 24, daysMax });
}

function within(range: DayRange, { days, daysMax }: { days: number; daysMax: number }): DayRange {
  const { start } = range;
  if (days <= 0) throw validationError([{ path: 'end', message: `expected a time that is not before ${start}` }]);
  if (days > daysMax) throw validationError([{ path: 'end', message: `expected at most ${daysMax} days` }]);
  return range;
}

const groupsOfAllHours: readonly GroupName[] = ['account', 'hour', 'model'];

/** The same over all accounts, which is bounded more. */
export function allReportQueryOf(asked: Query, options: { now: number; usual: readonly GroupName[] }): ReportQuery {
  const query = reportQueryOf(asked, options);
  if (query.unit === 'day') return query;
  if (query.groups.some((name) => !groupsOfAllHours.includes(name)))
    throw validationError([{ path: 'group_by', message: `expected some of ${groupsOfAllHours.join(', ')}` }]);
  return { ...query, range: hoursIn(asked, { now: options.now, daysMax: daysOfAllMax }) };
}

/** The days of a month, `YYYY-MM`. */
export function daysOfMonth(month: string): DayRange {
  const date = new Date(`${month}-01T00:00:00Z`);
  date.setUTCMonth(date.getUTCMonth() + 1, 0);
  return { start: `${month}-01`, end: date.toISOString().slice(0, 10) };
}
