import type { Redis as SingleRedis } from 'ioredis';
import { type Redis, redisUnavailable } from '../../shared/redis/connections.ts';
import { accountOfCountersKey, countersKeys } from '../../shared/redis/keys.ts';
import { redisNow } from '../../shared/redis/redis-now.ts';
import type { UsageStore } from '../../shared/store/usage/usage-store.ts';
import type { UsageMonth } from '../../shared/store/usage/usage-sums.ts';
import { findCountedMonths, findRecentMonths } from './check-month.ts';
import { mastersToScan } from './masters-to-scan.ts';
import { firstMonthKept } from './remove-old-months.ts';
import type { RetryUnavailable } from './retry-unavailable.ts';

const monthsAtOnce = 100;
const keysAtOnce = 500;

/** The months to compare, page by page. */
export function createMonthsToReconcile({
  redis,
  store,
  monthsKept,
  retryUnavailable,
}: {
  redis: Redis;
  store: Pick<UsageStore, 'listUsageMonths'>;
  monthsKept: number;
  retryUnavailable: RetryUnavailable;
}) {
  const list = (after: UsageMonth | undefined, limit: number) =>
    retryUnavailable(() => store.listUsageMonths({ after, limit }));

  /** An account's months in the store after this month. */
  async function monthsInStore(account: string, month: string, limit: number): Promise<string[]> {
    const listed = await list({ account, month }, limit);
    return listed.filter((found) => found.account === account).map((found) => found.month);
  }

  return {
    /** The months in the store, by account, except those that are being removed. */
    async *ofStore(): AsyncGenerator<UsageMonth> {
      for (let after: UsageMonth | undefined; ; ) {
        const first = firstMonthKept(await retryUnavailable(() => redisUnavailable(redisNow(redis))), monthsKept);
        const page = await list(after, monthsAtOnce);
        yield* page.filter(({ month }) => month >= first);
        if (page.length < monthsAtOnce) return;
        after = page.at(-1);
      }
    },

    /** Accounts with limit counters in Redis. An account may come twice. */
    async *accountsOfRedis(): AsyncGenerator<string> {
      for (const connect of await retryUnavailable(() => redisUnavailable(mastersToScan(redis)))) {
        let scanned: SingleRedis | undefined;
        let cursor = '0';
        const scan = async () => {
          const master = await connect();
          // After a restart, the cursor of the old process can skip keys.
          if (master !== scanned) [scanned, cursor] = [master, '0'];
          return master.scan(cursor, 'MATCH', countersKeys, 'COUNT', keysAtOnce);
        };
        do {
          const [next, keys] = await retryUnavailable(() => redisUnavailable(scan()));
          yield* keys.map(accountOfCountersKey);
          cursor = next;
        } while (cursor !== '0');
      }
    },

    /** The months of an account that only Redis counts. `isNew`: the store keeps no month of this account. */
    async onlyInRedis(account: string): Promise<{ months: UsageMonth[]; isNew: boolean }> {
      const counted = await retryUnavailable(() => findCountedMonths(redis, account));
      const [last] = await retryUnavailable(() => findRecentMonths(redis));
      const known = await monthsInStore(account, monthBefore(last, 1), counted.length);
      const months = counted.filter((month) => !known.includes(month)).map((month) => ({ account, month }));
      const isNew = months.length > 0 && (await monthsInStore(account, monthBefore(last, monthsKept), 1)).length === 0;
      return { months, isNew };
    },
  };
}

function monthBefore(month: string, months: number): string {
  return firstMonthKept(Date.parse(`${month}-01T00:00:00Z`), months);
}
