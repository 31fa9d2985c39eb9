import type { Redis } from 'ioredis';
import { createMonthsToReconcile } from './months-to-reconcile.ts';
import { driftOf } from './reconcile-drift.ts';
import { createReconcileMonth, type Drifted, type ReconcileStore } from './reconcile-month.ts';
import { createPatience } from './reconcile-patience.ts';

type Amount = { tokens: number; months: number };

/** `drifted` are the first of those that were `found` to differ; `left` is what still does after a repair. */
export type Reconciled = { accounts: number; months: number; found: Amount; left: Amount; drifted: Drifted[] };

const monthsAtOnce = 8;
const driftedToldMax = 100;

/**
 * Compares every account's month of the store and of Redis; `progress` is as far as it has come. While requests go on an
 * account may be counted twice that came into the store meanwhile. Fails with `SERVICE_UNAVAILABLE`, and where `signal` is aborted.
 */
export function createReconcileUsage(deps: {
  redis: Redis;
  store: ReconcileStore;
  /** Closed months whose usage is kept; older ones may be on their way out. */
  monthsKept: number;
  repair: boolean;
  /** How long the store or Redis may be away at a time. */
  patienceMs: number;
  signal: AbortSignal;
}): { run(): Promise<Reconciled>; progress(): Reconciled } {
  const patiently = createPatience(deps);
  const months = createMonthsToReconcile({ ...deps, patiently });
  const reconcileMonth = createReconcileMonth({ ...deps, patiently });
  const done: Reconciled = {
    accounts: 0,
    months: 0,
    found: { tokens: 0, months: 0 },
    left: { tokens: 0, months: 0 },
    drifted: [],
  };

  function note(drifted: Drifted | undefined): void {
    done.months += 1;
    if (drifted === undefined) return;
    add(done.found, drifted.found);
    add(done.left, drifted.left);
    if (done.drifted.length < driftedToldMax) done.drifted.push(drifted);
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
      // In this order: what comes into the store during the first is met in the second.
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

function add(amount: Amount, look: Drifted['left']): void {
  const drift = look === undefined ? undefined : driftOf(look);
  if (drift === undefined) return;
  amount.months += 1;
  amount.tokens += drift.tokens;
}

/** A few at once. Whichever fails ends all, as leaving a loop ends what it goes through. */
async function forEachOf<Item>(items: AsyncGenerator<Item>, work: (item: Item) => Promise<void>): Promise<void> {
  const oneByOne = async () => {
    for await (const item of items) await work(item);
  };
  await Promise.all(Array.from({ length: monthsAtOnce }, oneByOne));
}
