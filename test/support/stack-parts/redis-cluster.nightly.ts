import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test, { type ExecutionContext } from 'ava';
import { Cluster } from 'ioredis';
import { type RedisCluster, startRedisCluster } from '../../stack/redis-cluster.ts';

async function startCluster(t: ExecutionContext, sizes: { masters?: number; replicasEach?: number } = {}) {
  const directory = await mkdtemp(join(tmpdir(), 'redis-cluster-'));
  t.teardown(() => rm(directory, { recursive: true, force: true }));
  const cluster = await startRedisCluster({ directory, ...sizes });
  t.teardown(() => cluster[Symbol.asyncDispose]());
  return cluster;
}

function connect(t: ExecutionContext, cluster: RedisCluster): Cluster {
  const connection = new Cluster(cluster.nodes.map(({ port }) => ({ host: '127.0.0.1', port })));
  t.teardown(() => connection.disconnect());
  return connection;
}

/** One key on each of three masters. */
async function keysOfMasters(cluster: RedisCluster): Promise<string[]> {
  const names = Array.from({ length: 30 }, (_, index) => `key-${index}`);
  const holders = await Promise.all(names.map(async (key) => ({ key, id: (await cluster.holderOf(key)).id })));
  return [...Map.groupBy(holders, ({ id }) => id).values()].map(([first]) => first?.key ?? '');
}

async function isFree(port: number): Promise<boolean> {
  const server = createServer();
  return new Promise((resolve) => {
    server.once('error', () => resolve(false));
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)));
  });
}

test('three masters share the slots, each has a replica, and all settings are those of production', async (t) => {
  const cluster = await startCluster(t);
  const masters = await cluster.masters();
  t.deepEqual(masters, cluster.nodes.slice(0, 3));
  for (const master of masters) {
    t.is((await cluster.replicasOf(master)).length, 1);
    t.deepEqual(await master.redis.config('GET', 'maxmemory-policy'), ['maxmemory-policy', 'noeviction']);
    t.deepEqual(await master.redis.config('GET', 'appendonly'), ['appendonly', 'yes']);
  }
  const keys = await keysOfMasters(cluster);
  t.is(keys.length, 3);
  const connection = connect(t, cluster);
  await Promise.all(keys.map((key) => connection.set(key, 'yes')));
  await cluster.empty();
  t.deepEqual(await Promise.all(keys.map((key) => connection.exists(key))), [0, 0, 0]);
});

test('a killed master is replaced by its replica, and returns as one', async (t) => {
  const cluster = await startCluster(t);
  const connection = connect(t, cluster);
  await connection.set('kept', 'yes');
  const victim = await cluster.holderOf('kept');
  const replicas = await cluster.replicasOf(victim);
  await victim.kill('SIGKILL');
  await cluster.untilWhole();
  t.deepEqual([await cluster.holderOf('kept')], replicas);
  t.is(await connection.get('kept'), 'yes');
  await victim.restart();
  await cluster.untilWhole();
  t.deepEqual(await cluster.replicasOf(await cluster.holderOf('kept')), [victim]);
});

test('a killed master without a replica returns with its slots and its data; the others serve meanwhile', async (t) => {
  const cluster = await startCluster(t, { replicasEach: 0 });
  const connection = connect(t, cluster);
  const [lost = '', other = ''] = await keysOfMasters(cluster);
  await Promise.all([connection.set(lost, 'yes'), connection.set(other, 'yes')]);
  const victim = await cluster.holderOf(lost);
  await victim.kill('SIGKILL');
  t.is(await connection.get(other), 'yes');
  await t.throwsAsync(cluster.holderOf(lost));
  await victim.restart();
  await cluster.untilWhole();
  t.is(await cluster.holderOf(lost), victim);
  t.is(await connection.get(lost), 'yes');
});

test('a failover by hand loses nothing', async (t) => {
  const cluster = await startCluster(t);
  const connection = connect(t, cluster);
  await connection.set('kept', 'yes');
  const old = await cluster.holderOf('kept');
  const successor = await cluster.failOver(old);
  t.is(await cluster.holderOf('kept'), successor);
  t.deepEqual(await cluster.replicasOf(successor), [old]);
  t.is(await connection.get('kept'), 'yes');
});

test('a slot moves to a new node with its keys, and back before the node is removed', async (t) => {
  const cluster = await startCluster(t, { replicasEach: 0 });
  const connection = connect(t, cluster);
  const names = Array.from({ length: 150 }, (_, index) => `{tag}:${index}`);
  await Promise.all(names.map((key) => connection.set(key, 'yes')));
  const slot = await cluster.slotOf('{tag}');
  const from = await cluster.holderOf('{tag}');
  const added = await cluster.addNode();
  t.is((await cluster.masters()).length, 3);
  t.is(await cluster.moveSlot({ slot, to: added }), names.length);
  t.is(await cluster.holderOf('{tag}'), added);
  t.is((await cluster.masters()).length, 4);
  t.is(await connection.exists(...names), names.length);
  t.is(await cluster.moveSlot({ slot, to: from }), names.length);
  await cluster.removeNode(added);
  await cluster.untilWhole();
  t.is(await connection.exists(...names), names.length);
});

test('nothing is left after the end: no process, no port, and files only in its folder', async (t) => {
  const cluster = await startCluster(t, { replicasEach: 0 });
  const { nodes, directory } = cluster;
  await nodes[0]?.kill('SIGKILL');
  await nodes[1]?.kill('SIGSTOP');
  await cluster[Symbol.asyncDispose]();
  for (const { pid, port, busPort } of nodes) {
    t.throws(() => process.kill(pid, 0));
    t.deepEqual([await isFree(port), await isFree(busPort)], [true, true]);
  }
  t.deepEqual(await readdir(directory), ['node-0', 'node-1', 'node-2']);
});
