import test, { type ExecutionContext } from 'ava';
import { Registry } from 'prom-client';
import { leaseHolderOf, leaseHoldersKey } from '../../../shared/redis/keys.ts';
import { createWorkerMetrics } from '../../../workers/metrics.ts';
import { createExpireLeases } from '../../../workers/requests/expire-leases.ts';
import { type ClusterSide, openClusterSide } from '../../support/cluster-side.ts';

const partition = 7;
const holders = leaseHoldersKey(partition);
/** In seconds. */
const start = 1_900_000_000;

let side: ClusterSide;

test.before(async () => {
  side = await openClusterSide();
});
test.after.always(() => side?.[Symbol.asyncDispose]());

/** A partition with a lease that is past its time, and a worker. */
async function openPartition(t: ExecutionContext) {
  const redis = await side.connect(t);
  await redis.zadd(holders, 0, leaseHolderOf({ account: 'user:alice', lane: 'interactive' }));
  let now = start;
  const expireLeases = createExpireLeases({
    redis,
    endLeases: async () => 1,
    requestMs: () => 600_000,
    metrics: createWorkerMetrics(new Registry()),
    now: async () => now * 1_000,
  });
  return async function lookAt(second: number) {
    now = start + second;
    const { ended, nextMs } = await expireLeases(partition);
    return ended === 0 ? nextMs : 'expired';
  };
}

test.serial('in a cluster, no lease expires in the first minute of a worker', async (t) => {
  const lookAt = await openPartition(t);
  t.is(await lookAt(0), 60_000);
  for (const second of [20, 40]) t.is(await lookAt(second), 60_000 - second * 1_000);
  t.is(await lookAt(59), 1_000);
  t.is(await lookAt(60), 'expired');
  t.is(await lookAt(80), 'expired');
});

test.serial(
  'in a cluster, no lease expires for a minute after its partition was acquired or unavailable',
  async (t) => {
    const lookAt = await openPartition(t);
    for (const second of [0, 20, 40]) await lookAt(second);
    t.is(await lookAt(60), 'expired');
    t.is(await lookAt(90), 'expired');
    t.is(await lookAt(121), 60_000);
  },
);

test.serial('no lease expires for a minute after its partition has moved to another node', async (t) => {
  const lookAt = await openPartition(t);
  for (const second of [0, 20, 40]) await lookAt(second);
  t.is(await lookAt(60), 'expired');
  const from = await side.cluster.holderOf(holders);
  const to = (await side.cluster.masters()).find((node) => node !== from);
  if (to === undefined) return t.fail();
  await side.cluster.moveSlot({ slot: await side.cluster.slotOf(holders), to });
  t.is(await lookAt(61), 60_000);
  for (const second of [81, 101]) await lookAt(second);
  t.is(await lookAt(121), 'expired');
});
