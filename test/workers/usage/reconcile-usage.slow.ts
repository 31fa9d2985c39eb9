import { once } from 'node:events';
import type { ExecutionContext } from 'ava';
import test from 'ava';
import { mastersOf } from '../../../shared/redis/connections.ts';
import { countersKey } from '../../../shared/redis/keys.ts';
import { createRetryUnavailable } from '../../../workers/usage/reconcile-month.ts';
import { createMonthsToReconcile } from '../../../workers/usage/reconcile-usage.ts';
import { type ClusterSide, openClusterSide } from '../../support/cluster-side.ts';

/** Several pages on each of three nodes. */
const accounts = Array.from({ length: 6_000 }, (_, index) => `user:${index}`).toSorted();

let side: ClusterSide;

test.before(async (t) => {
  t.timeout(60_000);
  side = await openClusterSide();
});
test.after.always(() => side?.[Symbol.asyncDispose]());

async function openAccounts(t: ExecutionContext, { unavailableMsMax = 30_000 } = {}) {
  t.timeout(60_000);
  const redis = await side.connect(t);
  // Few at a time: each call has a deadline of a second, on a busy machine as well.
  for (let start = 0; start < accounts.length; start += 100) {
    const some = accounts.slice(start, start + 100);
    await Promise.all(some.map((account) => redis.hset(countersKey(account), 'a', '1')));
  }
  const retryUnavailable = createRetryUnavailable({ unavailableMsMax, signal: new AbortController().signal });
  const store = { listUsageMonths: async () => [] };
  const months = createMonthsToReconcile({ redis, store, monthsKept: 3, retryUnavailable });
  return { redis, found: months.accountsOfRedis() };
}

/** As after a restart of these nodes: the library removes a connection that has ended. */
async function endConnections(masters: ReturnType<typeof mastersOf>): Promise<void> {
  const ended = masters.map((master) => once(master, 'end'));
  for (const master of masters) master.disconnect();
  await Promise.all(ended);
}

const sorted = (found: readonly string[]) => [...new Set(found)].toSorted();

test.serial('the accounts of a master without a connection are found', async (t) => {
  const { redis, found } = await openAccounts(t);
  await endConnections(mastersOf(redis).slice(0, 1));
  t.deepEqual(sorted(await Array.fromAsync(found)), accounts);
});

test.serial('all accounts are found although connections end while they are read', async (t) => {
  const { redis, found } = await openAccounts(t);
  const first = await found.next();
  await endConnections(mastersOf(redis));
  const others = await Array.fromAsync(found);
  t.deepEqual(sorted([first.value ?? '', ...others]), accounts);
});

test.serial('if a master stays away, the search fails as unavailable', async (t) => {
  const { found } = await openAccounts(t, { unavailableMsMax: 2_000 });
  const holder = await side.cluster.holderOf(countersKey(accounts[0] ?? ''));
  await holder.kill('SIGKILL');
  try {
    await t.throwsAsync(Array.fromAsync(found), { code: 'SERVICE_UNAVAILABLE' });
  } finally {
    await holder.restart();
    await side.cluster.untilWhole();
  }
});
