import test from 'ava';
import { existingKeys } from '../../../workers/replies/watch-readers.ts';
import { openRedisDatabase } from '../../support/private-redis.ts';
import { watchRedis } from '../../support/watch-redis.ts';

for (const [existing, commands] of [
  [0, 1],
  [1, 101],
  [99, 101],
  [100, 1],
] as const) {
  test.serial(`of 100 keys, the ${existing} that exist are found by ${commands} commands`, async (t) => {
    const keys = Array.from({ length: 100 }, (_, index) => `key-${index}-of-${existing}`);
    await using own = await openRedisDatabase();
    for (const key of keys.slice(100 - existing)) await own.redis.zadd(key, 0, '0');
    await using watch = await watchRedis(own.url);
    let found: ReadonlySet<string> = new Set();
    const asked = await watch.during(async () => {
      found = await existingKeys(own.redis, keys);
    });
    t.deepEqual([...found], keys.slice(100 - existing));
    t.is(asked.filter(([, key = '']) => keys.includes(key)).length, commands);
  });
}

test('no command is sent for no keys', async (t) => {
  t.deepEqual(await existingKeys({} as never, []), new Set()); // any command would fail
});
