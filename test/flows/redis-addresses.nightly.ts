import test from 'ava';
import { startRedisCluster } from '../stack/redis-cluster.ts';
import { allRights, clusterRights, replyRights, sentinelRights } from '../stack/redis-rights.ts';
import { startRedisSentinel } from '../stack/redis-sentinel.ts';
import { startRedis } from '../stack/redis-server.ts';
import { refusalsOf } from '../stack/stack-redis.ts';
import { login, openDirectory, serves, user } from '../support/redis-with-user.ts';

test.serial('Sentinel, with a user of Redis and one of the sentinels', async (t) => {
  const directory = await openDirectory(t);
  const watcher = ['on', '>watch', 'resetchannels', '-@all', ...sentinelRights.map((command) => `+${command}`)];
  await using sentinel = await startRedisSentinel({
    ...{ directory, settings: { user: user(allRights) } },
    sentinelLines: [`user watcher ${watcher.join(' ')}`],
  });
  const address = sentinel.url.replace('://', `://${login}`);
  await serves(t, { redisUrl: `${address}?sentinel_username=watcher&sentinel_password=watch` });
  const users = ['service', 'watcher'];
  const all = [...sentinel.servers, ...sentinel.sentinels];
  const refusals = await Promise.all(all.map(({ port }) => refusalsOf(port, users)));
  t.deepEqual(refusals.flat(), []);
});

test.serial('answers on another Redis, whose user has only the rights for them', async (t) => {
  const directory = await openDirectory(t);
  await using replies = await startRedis({ directory, settings: { user: user(replyRights) } });
  await serves(t, { env: { REPLY_REDIS_URL: replies.url.replace('://', `://${login}`) } });
  t.deepEqual(await refusalsOf(replies.port), []);
});

test.serial('answers on a cluster, and everything else on one Redis', async (t) => {
  const directory = await openDirectory(t);
  const settings = { user: user([...replyRights, ...clusterRights]) };
  await using cluster = await startRedisCluster({ directory, replicasEach: 0, settings });
  await serves(t, { env: { REPLY_REDIS_URL: cluster.url.replace('://', `://${login}`) } });
  const refusals = await Promise.all(cluster.nodes.map(({ port }) => refusalsOf(port)));
  t.deepEqual(refusals.flat(), []);
});
