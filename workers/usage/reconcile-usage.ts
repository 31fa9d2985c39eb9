import { Cluster, type Redis as SingleRedis } from 'ioredis';
import { masterAddresses, masterAt, type Redis, redisNow, redisUnavailable } from '../../shared/redis/connections.ts';
import { accountOfCountersKey, countersKeys } from '../../shared/redis/keys.ts';
import type { UsageMonth } from '../../shared/store/usage/usage-record.ts';
import type { UsageStore } from '../../shared/store/usage/usage-store.ts';
import {
  createReconcileMonth,
  createRetryUnavailable,
  type Drift,
  driftOf,
  findCountedMonths,
  findRecentMonths,
  type ReconcileStore,
  type RetryUnavailable,
} from './reconcile-month.ts';
import { firstMonthKept } from './remove-old-usage.ts';

type Amount = { tokens: number; months: number };

/** `found`: what differed; `drifted` are the first of these. `left`: what still differs after a repair. */
export type ReconcileReport = { accounts: number; months: number; found: Amount; left: Amount; drifted: Drift[] };

const monthsAtOnce = 8;
const driftedShownMax = 100;

/**
 * Compares every account's months in the store and in Redis. `progress` is the result so far. While requests are served, an account that
 * reaches the store meanwhile may be counted twice. Fails with `SERVICE_UNAVAILABLE`, and if `signal` is aborted.
 */
export function createReconcileUsage(deps: {
  redis: Redis;
  store: ReconcileStore;
  /** Closed months whose usage is kept. Older ones may be being removed. */
  monthsKept: number;
  repair: boolean;
  /** How long the store or Redis may be unavailable at a time. */
  unavailableMsMax: number;
  signal: AbortSignal;
}): { run(): Promise<ReconcileReport>; progress(): ReconcileReport } {
  const retryUnavailable = createRetryUnavailable(deps);
  const months = createMonthsToReconcile({ ...deps, store: deps.store.usage, retryUnavailable });
  const reconcileMonth = createReconcileMonth({ ...deps, retryUnavailable });
  const done: ReconcileReport = {
    accounts: 0,
    months: 0,
    found: { tokens: 0, months: 0 },
    left: { tokens: 0, months: 0 },
    drifted: [],
  };

  function note(drifted: Drift | undefined): void {
    done.months += 1;
    if (drifted === undefined) return;
    add(done.found, drifted.found);
    add(done.left, drifted.left);
    if (done.drifted.length < driftedShownMax) done.drifted.push(drifted);
  }

  async function reconcileOnlyInRedis(account: string): Promise<void> {
    const onlyInRedis = await months.onlyInRedis(account);
    for (const month of onlyInRedis.months) note(await reconcileMonth(month));
    if (onlyInRedis.isNew) done.accounts += 1;
  }

  let account: string | undefined;
  return {
    progress: () => done,
    async run() {
      // In this order: the second pass finds what reaches the store during the first.
      await forEachOf(months.accountsOfRedis(), reconcileOnlyInRedis);
      await forEachOf(months.ofStore(), async (month) => {
        if (month.account !== account) done.accounts += 1;
        account = month.account;
        note(await reconcileMonth(month));
      });
      return done;
    },
  };
}

function add(amount: Amount, checked: Drift['left']): void {
  const drift = checked === undefined ? undefined : driftOf(checked);
  if (drift === undefined) return;
  amount.months += 1;
  amount.tokens += drift.tokens;
}

/** Works on a few items at once. The first failure ends all, because leaving a loop ends its generator. */
async function forEachOf<Item>(items: AsyncGenerator<Item>, work: (item: Item) => Promise<void>): Promise<void> {
  const oneByOne = async () => {
    for await (const item of items) await work(item);
  };
  await Promise.all(Array.from({ length: monthsAtOnce }, oneByOne));
}

const monthsPerPage = 100;
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
        const page = await list(after, monthsPerPage);
        yield* page.filter(({ month }) => month >= first);
        if (page.length < monthsPerPage) return;
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

/** Returns the current connection to a master. Fails while there is none. It is another one after a connection was lost. */
type ConnectToMaster = () => Promise<SingleRedis>;

/**
 * The masters of a cluster that have slots, or the one Redis. Masters that are away are among them: the library removes only their
 * connections.
 */
async function mastersToScan(redis: Redis): Promise<ConnectToMaster[]> {
  if (!(redis instanceof Cluster)) return [async () => redis];
  await refreshSlots(redis);
  const addresses = masterAddresses(redis);
  if (addresses.length === 0) throw new Error('no master of the Redis Cluster is known');
  return addresses.map((address) => () => connectTo(redis, address));
}

async function connectTo(cluster: Cluster, address: string): Promise<SingleRedis> {
  if (masterAt(cluster, address) === undefined) await refreshSlots(cluster);
  const node = masterAt(cluster, address);
  if (node === undefined) throw new Error(`${address} is not a master of the Redis Cluster`);
  return node;
}

/** Also makes the library connect again to nodes that have slots. */
function refreshSlots(cluster: Cluster): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  cluster.refreshSlotsCache((error) => (error ? reject(error) : resolve()));
  return promise;
}
