import type { UsageMonth, UsageRecord, UsageSum } from './usage-record.ts';
import { createUsageRepairs, detailPages, type RecomputedUsage } from './usage-repairs.ts';
import {
  createDayTally,
  type HourGroup,
  type HourSum,
  type RefusalSum,
  type Refusals,
  type UsageDay,
  type UsageDetail,
  type UsageTables,
  type UsageUnit,
} from './usage-tables.ts';

export type { RecomputedUsage } from './usage-repairs.ts';

type MonthPage = { after?: UsageMonth | undefined; limit: number };

const beforeAll = { account: '', month: '' };

const hourMs = 3_600_000;
/** Hours are kept for so many days (contract.md#r13-hours). Those of the last one may be removed by a process with another clock. */
export const hoursKeptDays = 62;

/** `YYYY-MM-DDTHH`, UTC. */
export function hourOf(time: number): string {
  return new Date(time).toISOString().slice(0, 13);
}

/** The first hour that every process keeps, and that of the first one of which details are removed. */
function hoursKept(now: number): { from: string; removedBefore: string } {
  const daysBefore = (days: number) => hourOf(now - days * 24 * hourMs);
  return { from: daysBefore(hoursKeptDays - 1), removedBefore: daysBefore(hoursKeptDays) };
}

/** Stored usage: a record of each request, sums by account and month, and details by account and day or hour. */
export function createUsageStore(tables: UsageTables, { now = Date.now }: { now?: (() => number) | undefined } = {}) {
  const hoursFrom = () => hoursKept(now()).from;
  const { recompute, repair, repairUntilExact } = createUsageRepairs(tables, hoursFrom);

  return {
    /**
     * Adds records of one outbox partition, in the outbox's order, to the records, details and sums. Any number of callers may submit the
     * same records, split differently, and may be interrupted at any point: once a call for each record has succeeded, every request has
     * one record and is counted once (contract.md#r5-sums). A request that already has a record keeps it.
     */
    async recordUsage(records: readonly UsageRecord[]): Promise<void> {
      if (records.length === 0) return;
      for (const month of await tables.take(records, hoursFrom())) await repairUntilExact(month);
    },
    /**
     * Adds refusals of one outbox partition, in the outbox's order. Each entry counts once in its place, no matter how often it is
     * submitted. Hours that are no longer kept are left out.
     */
    async recordRefusals(refusals: readonly Refusals[]): Promise<void> {
      const kept = refusals.filter(({ start }) => start >= hoursFrom());
      if (kept.length > 0) await tables.takeRefusals(kept);
    },
    /** Reads only data that a failover cannot undo, and no details. */
    async findUsageSum(account: string, month: string): Promise<UsageSum | undefined> {
      return (await tables.readSum({ account, month }))?.sum;
    },
    /** Returns a month's usage by day and model, in this order. It can be slightly ahead of the sum. */
    async findUsageDays(account: string, month: string): Promise<UsageDay[]> {
      const tally = createDayTally();
      const pages = detailPages(tables, { account, month }, { unit: 'day' });
      for await (const page of pages) tally.add(page.map(({ detail }) => detail));
      return tally.days();
    },
    ...createUsageByKey(tables),
    details: createDetailReads(tables),
    readRefusals: createRefusalReads(tables),
    /** The usage of one hour of all accounts, by these groups, and the refusals by code, and by account if that is a group. */
    async sumHour(hour: string, groups: readonly HourGroup[]): Promise<{ usage: HourSum[]; refusals: RefusalSum[] }> {
      const [usage, refusals] = await Promise.all([tables.sumHour(hour, groups), tables.sumRefusals(hour, groups)]);
      return { usage, refusals };
    },
    findUsageRecord: tables.findRecord,
    findUsageByAnswer: tables.findByAnswer,
    listUsageRecords: tables.listRecords,
    removeUsageBefore: tables.removeBefore,
    /**
     * Removes a piece of the hours that are no longer kept at this time. Returns how many details and refusals: until 0 there are more.
     */
    removeOldHours: (at: number): Promise<number> => tables.removeHoursBefore(hoursKept(at).removedBefore),
    recomputeUsage: (account: string, month: string, upTo: string): Promise<RecomputedUsage> =>
      recompute({ account, month, upTo }),
    repairUsage: (account: string, month: string, upTo: string): Promise<boolean> => repair({ account, month, upTo }),
    /** Lists every account and month that has a sum or a record, in a fixed order, starting after `after`. */
    async listUsageMonths({ after = beforeAll, limit }: MonthPage): Promise<UsageMonth[]> {
      const months: UsageMonth[] = [];
      while (months.length < limit) {
        const next = await tables.nextMonth(months.at(-1) ?? after);
        if (next === undefined) break;
        months.push(next);
      }
      return months;
    },
  };
}

export type UsageStore = ReturnType<typeof createUsageStore>;

/** Days, UTC, as `YYYY-MM-DD`, or hours as `YYYY-MM-DDTHH`; both are included. */
export type DayRange = { start: string; end: string };

const detailsAtOnce = 500;

/** The details of days or hours, in pieces, so that memory is bounded. */
function createDetailReads(tables: UsageTables) {
  async function* pagesOfMonth(month: string): AsyncGenerator<UsageDetail[]> {
    for (let after: UsageDetail | undefined; ; ) {
      const page = await tables.readMonthDetails(month, { after, limit: detailsAtOnce });
      yield page;
      after = page.at(-1);
      if (after === undefined || page.length < detailsAtOnce) return;
    }
  }

  return {
    /** Those of one account, in order of days or hours. */
    async *read({ account, unit = 'day', start, end }: AccountRange): AsyncIterable<UsageDetail[]> {
      for (const month of monthsOf({ start, end })) {
        for await (const page of detailPages(tables, { account, month }, { unit, from: start })) {
          yield within(
            page.map(({ detail }) => detail),
            { start, end },
          );
          if ((page.at(-1)?.detail.start ?? '') > end) break;
        }
      }
    },

    /**
     * Those of days of all accounts: one account after the other, in an order of the store, and each in order of days. A piece is of one
     * account. Usage that arrives meanwhile can be missing for one account and present for the next one.
     */
    async *readAll(range: DayRange): AsyncIterable<UsageDetail[]> {
      const months = await Promise.all(monthsOf(range).map((month) => openMonth(pagesOfMonth(month))));
      for (;;) {
        const heads = months.map((month) => month.account()).filter((account) => account !== undefined);
        const [next] = heads.sort(tables.compareAccounts);
        if (next === undefined) return;
        for (const month of months) for await (const piece of month.take(next)) yield within(piece, range);
      }
    },
  };
}

type AccountRange = DayRange & { account: string; unit?: UsageUnit };

/** The refusals of an account in hours, a day at a time. */
function createRefusalReads(tables: UsageTables) {
  return async function* readRefusals({
    account,
    start,
    end,
  }: DayRange & { account: string }): AsyncIterable<Refusals[]> {
    const last = Date.parse(`${end}:00Z`);
    for (let from = Date.parse(`${start}:00Z`); from <= last; from += 24 * hourMs) {
      const to = Math.min(last, from + 23 * hourMs);
      yield await tables.readRefusals(account, { start: hourOf(from), end: hourOf(to) });
    }
  };
}

/** The details of one month over all accounts, read account by account. */
async function openMonth(pages: AsyncGenerator<UsageDetail[]>) {
  let unread: UsageDetail[] = [];
  const readMore = async () => {
    unread = (await pages.next()).value ?? [];
  };
  await readMore();
  return {
    /** The account of the next detail; undefined at the end. */
    account: () => unread[0]?.account,
    /** The details of this account, if it is the next one. */
    async *take(account: string): AsyncGenerator<UsageDetail[]> {
      while (unread[0]?.account === account) {
        const count = unread.findIndex((detail) => detail.account !== account);
        const piece = count === -1 ? unread : unread.slice(0, count);
        unread = unread.slice(piece.length);
        if (unread.length === 0) await readMore();
        yield piece;
      }
    },
  };
}

function within(details: readonly UsageDetail[], { start, end }: DayRange): UsageDetail[] {
  return details.filter((detail) => detail.start >= start && detail.start <= end);
}

/** The months that have one of these days, in their order. Counted, so that they end also at the last month of the year 9999. */
function monthsOf({ start, end }: DayRange): string[] {
  const [first, last] = [monthNumber(start), monthNumber(end)];
  return Array.from({ length: last - first + 1 }, (_, index) => monthText(first + index));
}

/** Months since January of the year 0. */
function monthNumber(day: string): number {
  return Number(day.slice(0, 4)) * 12 + Number(day.slice(5, 7)) - 1;
}

function monthText(number: number): string {
  const [year, month] = [Math.floor(number / 12), (number % 12) + 1];
  return `${String(year).padStart(4, '0')}-${String(month).padStart(2, '0')}`;
}

/** The requests of a key, and the tokens that were charged for them. */
export type KeyUsage = Pick<UsageDetail['counts'], 'requests' | 'chargedTokens'>;

/** A month's usage by key. */
function createUsageByKey(tables: UsageTables) {
  /** Reads the details of the month, or of one key in it, in pieces. */
  async function* detailsOf(month: UsageMonth, keyId?: string): AsyncIterable<UsageDetail[]> {
    for await (const page of detailPages(tables, month, { unit: 'day', keyId })) yield page.map(({ detail }) => detail);
  }

  return {
    /** Returns the details of a month that belong to this key. */
    async findKeyUsage({ keyId, ...month }: UsageMonth & { keyId: string }): Promise<UsageDetail[]> {
      const found: UsageDetail[] = [];
      for await (const page of detailsOf(month, keyId)) found.push(...page);
      return found;
    },
    /** Returns a month's usage by the id of the key that was used. */
    async findUsageByKey(month: UsageMonth): Promise<ReadonlyMap<string, KeyUsage>> {
      const usages = new Map<string, KeyUsage>();
      for await (const page of detailsOf(month)) {
        for (const { keyId, counts } of page) {
          const usage = usages.get(keyId) ?? { requests: 0, chargedTokens: 0 };
          usage.requests += counts.requests;
          usage.chargedTokens += counts.chargedTokens;
          usages.set(keyId, usage);
        }
      }
      return usages;
    },
  };
}
