import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import test from 'ava';
import { batchSchedulerLockKey, leasesKey, queuePrefix, sharesKey } from '../../shared/redis/keys.ts';
import { type ClusterNode, type RedisCluster, startRedisCluster } from '../stack/redis-cluster.ts';
import { startStack } from '../stack/stack.ts';
import { linesOf, openBatchClient, tokensIn } from '../support/batch-client.ts';
import { faultTest } from '../support/faults/fault-test.ts';

const lines = 300;
/** If the node has the control stream of the worker that queues them, 16 end in about two seconds. */
const otherLines = 100;

/** A name whose key is on one of these nodes. */
async function nameOn(cluster: RedisCluster, nodes: readonly ClusterNode[], keyOf: (name: string) => string) {
  for (let index = 0; ; index++) {
    const name = `name-${index}`;
    if (nodes.includes(await cluster.holderOf(keyOf(name)))) return name;
  }
}

faultTest(
  test,
  {
    id: 'B7',
    done: 'a master of a Redis Cluster without a replica is killed while lines of one of its accounts run, and restarted later',
    promised:
      'meanwhile the batch of an account on another node ends, in the same queue; then the first one does; every line is charged once',
  },
  async (t, see) => {
    t.timeout(240_000);
    await using parts = new AsyncDisposableStack();
    const directory = await mkdtemp(join(tmpdir(), 'batch-node-away-'));
    parts.defer(() => rm(directory, { recursive: true, force: true }));
    const cluster = parts.use(await startRedisCluster({ directory, replicasEach: 0 }));
    const masters = await cluster.masters();
    const needed = await Promise.all([sharesKey(), batchSchedulerLockKey].map(cluster.holderOf));
    const node = masters.find((each) => !needed.includes(each));
    if (node === undefined) throw new Error('there are three nodes');
    const others = masters.filter((each) => each !== node);
    const model = await nameOn(cluster, others, queuePrefix);
    const stack = parts.use(
      await startStack({
        ...{ redisUrl: cluster.url, workers: 2, modelServers: { firstTokenMs: 100, tokensPerSecond: 400 } },
        models: { [model]: { tier: 'guest', pool: 'default' } },
        plans: { free: { model_tiers: ['guest', 'standard'] } },
      }),
    );
    const keyOf = (name: string) => leasesKey(`user:${name}`, 'batch');
    const away = await openBatchClient(stack, await nameOn(cluster, [node], keyOf));
    const near = await openBatchClient(stack, await nameOn(cluster, others, keyOf));
    const first = await away.create(linesOf(lines, { model }));
    await away.until(first.id, ({ request_counts }) => (request_counts?.completed ?? 0) > 10);
    await node.kill('SIGKILL');
    const killedAt = performance.now();
    await sleep(1_000);
    const second = await near.create(linesOf(otherLines, { model }));
    const ended = await near.ended(second.id, 60_000);
    see(`the other batch had ended ${Math.round(performance.now() - killedAt)} ms after the node was killed`);
    t.like(ended, { status: 'completed', request_counts: { total: otherLines, completed: otherLines, failed: 0 } });
    await node.restart();
    await cluster.untilWhole();
    const whole = await away.ended(first.id, 120_000);
    t.like(whole, { status: 'completed', request_counts: { total: lines, completed: lines, failed: 0 } });
    for (const [client, batch] of [
      [away, whole],
      [near, ended],
    ] as const) {
      const quota = () => client.client.get<{ used: number; reserved: number }>('/../billing/quota');
      let now = await quota();
      for (; now.reserved > 0; now = await quota()) await sleep(100);
      t.is(now.used, tokensIn(await client.output(batch)));
    }
  },
);
