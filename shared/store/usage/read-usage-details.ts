import type { UsageDetail } from './usage-details.ts';
import { detailPages } from './usage-repairs.ts';
import type { UsageMonth } from './usage-sums.ts';
import type { UsageTables } from './usage-tables.ts';

/** Days, UTC, as `YYYY-MM-DD`; both are included. */
export type DayRange = { start: string; end: string };

const detailsAtOnce = 500;

/** The details of days, in pieces, so that memory is bounded. */
export function createDetailReads(tables: UsageTables) {
  async function* pagesOfMonth(month: string): AsyncGenerator<UsageDetail[]> {
    for (let after: UsageDetail | undefined; ; ) {
      const page = await tables.readMonthDetails(month, { after, limit: detailsAtOnce });
      yield page;
      after = page.at(-1);
      if (after === undefined || page.length < detailsAtOnce) return;
    }
  }

  return {
    /** Those of one account, in order of days. */
    async *read({ account, start, end }: DayRange & { account: string }): AsyncIterable<UsageDetail[]> {
      for (const month of monthsOf({ start, end })) {
        for await (const page of detailPages(tables, { account, month }, start)) {
          yield within(
            page.map(({ detail }) => detail),
            { start, end },
          );
          if ((page.at(-1)?.detail.day ?? '') > end) break;
        }
      }
    },

    /**
     * Those of all accounts: one account after the other, in an order of the store, and each in order of days. A piece is of one account.
     * Usage that arrives meanwhile can be missing for one account and present for the next one.
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

export type DetailReads = ReturnType<typeof createDetailReads>;

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
  return details.filter(({ day }) => day >= start && day <= end);
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
export function createUsageByKey(tables: UsageTables) {
  /** Reads the details of the month, or of one key in it, in pieces. */
  async function* detailsOf(month: UsageMonth, keyId?: string): AsyncIterable<UsageDetail[]> {
    for await (const page of detailPages(tables, month, '', keyId)) yield page.map(({ detail }) => detail);
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

export type UsageByKey = ReturnType<typeof createUsageByKey>;
