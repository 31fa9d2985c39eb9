import test from 'ava';
import { Cluster } from 'ioredis';
import { mastersOf } from '../../../shared/redis/connections.ts';
import { redisNow } from '../../../shared/redis/redis-now.ts';
import { openRedisDatabase } from '../../support/private-redis.ts';

test('a failure says why there is no time', async (t) => {
  await using own = await openRedisDatabase();
  const away = own.connect();
  away.disconnect();
  await t.throwsAsync(redisNow(away), { message: 'Connection is closed.' });

  const cluster = new Cluster(['127.0.0.1:1'], { lazyConnect: true });
  await t.throwsAsync(redisNow(cluster), { message: 'no node of the Redis Cluster is connected' });
  cluster.nodes = () => mastersOf(away);
  await t.throwsAsync(redisNow(cluster), { message: 'Connection is closed.' });
  cluster.nodes = () => [away, own.redis].flatMap(mastersOf);
  t.true(Math.abs((await redisNow(cluster)) - Date.now()) < 5_000);
});
