import { setTimeout as sleep } from 'node:timers/promises';
import type { ExecutionContext } from 'ava';
import { Registry } from 'prom-client';
import { createSeed } from '../../../shared/limits/seed.ts';
import type { Redis } from '../../../shared/redis/connections.ts';
import { countersKey, outboxMarksKey, partitionOf } from '../../../shared/redis/keys.ts';
import type { Store } from '../../../shared/store/store.ts';
import { createWorkerMetrics } from '../../../workers/metrics.ts';
import { createEndLeases, createExpireLeases } from '../../../workers/requests/expire-leases.ts';
import { createCheckMonth, driftOf } from '../../../workers/usage/reconcile-month.ts';
import { createUsageDrainer } from '../../../workers/usage/usage-drainer.ts';
import { timeouts } from '../../support/limits-side.ts';
import { recordedLog } from '../../support/recorded-log.ts';
import type { openReconcileSide } from './reconcile-side.ts';

type Given = { store: Store; redis: Redis; side: ReturnType<typeof openReconcileSide> };

const accounts = Array.from({ length: 12 }, (_, index) => `user:${index}`);
const drainers = 3;
const comparisonsMin = 15;
/** Trims all the time; usually an entry is trimmed 10 s after it was drained. */
const timesFaster = 10;

/** Fast enough for several requests during each check. Without a bound there would be more than can be recomputed. */
const paceMs = 15;

/** Every account uses the service all the time, and its counters are removed from Redis now and then. */
function startTraffic({ side, redis }: Given) {
  let isOver = false;
  let settled = 0;

  async function run(account: string): Promise<void> {
    const one = await side.openAccount(account);
    for (let turn = 0; !isOver; turn += 1) {
      const requestId = `request ${turn}`;
      const overage = turn % 5 === 0;
      const allowance = overage ? { tokensPerMonth: 0, overageEnabled: true } : {};
      while ((await one.admit({ requestId, tokens: 50 + turn, allowance })).outcome !== 'admitted') await one.count();
      if (turn % 7 === 0) await one.release(requestId);
      else {
        await one.start(requestId);
        await one.settle(requestId, { tokens: turn });
        settled += 1;
      }
      if (turn % 11 === 0) await one.useBefore(`before ${turn}`, 1, { tokens: turn });
      if (turn % 13 === 0) await redis.del(countersKey(account));
      await sleep(Math.random() * paceMs);
      if (turn % 17 === 0) await one.admit({ requestId: `lost ${turn}`, tokens: 20 });
    }
  }

  const all = Promise.all(accounts.map(run));
  return {
    settled: () => settled,
    async end() {
      isOver = true;
      await all;
    },
  };
}

function startDrainer({ redis, store }: Given) {
  const { log } = recordedLog();
  const metrics = createWorkerMetrics(new Registry());
  const requestMs = () => timeouts.requestMs;
  const expireLeases = createExpireLeases({
    redis,
    endLeases: createEndLeases(redis, { requestMs }),
    requestMs,
    metrics,
  });
  const now = () => performance.now() * timesFaster;
  const workerId = `drainer ${Math.random()}`;
  const shareKeptRoom = async () => {};
  return createUsageDrainer({
    ...{ redis, store: store.usage, workerId, metrics, log, monthsKept: () => 24, expireLeases, shareKeptRoom, now },
  });
}

/** Runs the complete comparison and single checks: a single check finds no drift that a second one does not find. */
export async function findsNothingUnderTraffic(t: ExecutionContext, given: Given): Promise<void> {
  t.timeout(180_000);
  const { side, store, redis } = given;
  const checkMonth = createCheckMonth({ redis, store: store.usage, seed: createSeed({ redis, store: store.usage }) });
  const months = [await side.monthsAgo(0), await side.monthsAgo(1)];
  await using owned = new AsyncDisposableStack();
  for (let index = 0; index < drainers; index += 1) owned.use(startDrainer(given));
  const traffic = startTraffic(given);

  let comparisons = 0;
  let looks = 0;
  const partition = partitionOf(accounts[0] ?? '');
  const isTrimmed = async () => (await redis.hget(outboxMarksKey(partition), 'trimmed')) !== null;
  while (comparisons < comparisonsMin || !(await isTrimmed())) {
    const { found, drifted } = await side.reconcile();
    t.deepEqual([found.months, drifted], [0, []]);
    comparisons += 1;
    for (const month of months) {
      for (const look of await Promise.all(accounts.map((account) => checkMonth({ account, month })))) {
        t.is(driftOf(look), undefined, JSON.stringify(look));
        looks += 1;
      }
    }
  }
  await traffic.end();
  t.true(traffic.settled() > 200, `${traffic.settled()} requests settled`);
  t.log(`${comparisons} comparisons and ${looks} looks during ${traffic.settled()} requests`);

  await side.drain();
  const reconciled = await side.reconcile();
  t.like(reconciled, { accounts: accounts.length, months: 2 * accounts.length, found: { months: 0 } });
}
