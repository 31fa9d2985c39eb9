import type { Redis } from '../../shared/redis/connections.ts';
import { createMonthsToReconcile } from './months-to-reconcile.ts';
import { driftOf } from './reconcile-drift.ts';
import { createReconcileMonth, type Drift, type ReconcileStore } from './reconcile-month.ts';
import { createRetryUnavailable } from './retry-unavailable.ts';

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
