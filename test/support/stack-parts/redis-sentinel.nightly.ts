import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test from 'ava';
import { startRedisSentinel } from '../../stack/redis-sentinel.ts';
import { openRedis } from '../open-redis.ts';

test('a killed master is replaced by its replica, which clients find, and returns as its replica', async (t) => {
  const directory = await mkdtemp(join(tmpdir(), 'redis-sentinel-'));
  t.teardown(() => rm(directory, { recursive: true, force: true }));
  const sentinel = await startRedisSentinel({ directory });
  t.teardown(() => sentinel[Symbol.asyncDispose]());
  const redis = openRedis(sentinel.url);
  t.teardown(() => redis.disconnect());
  await redis.set('kept', 'yes');
  const old = await sentinel.master();
  t.is(sentinel.servers.indexOf(old), 0);
  while ((await redis.call('WAIT', '1', '1000')) === 0);

  await old.kill('SIGKILL');
  const successor = await sentinel.untilReplaced(old);
  t.is(sentinel.servers.indexOf(successor), 1);
  t.is(await redis.get('kept'), 'yes');

  await old.restart();
  await redis.set('written later', 'yes');
  while ((await redis.call('WAIT', '1', '1000')) === 0);
  t.is(await sentinel.master(), successor);

  const { servers, sentinels } = sentinel;
  await sentinel[Symbol.asyncDispose]();
  for (const { pid } of [...servers, ...sentinels]) t.throws(() => process.kill(pid, 0));
});
