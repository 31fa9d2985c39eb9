import test from 'ava';
import { createListWorkers } from '../../../shared/jobs/list-workers.ts';
import { sharesExpiryKey } from '../../../shared/redis/coordination-keys.ts';
import { createRenewShares } from '../../../workers/fleet-limits/renew-shares.ts';
import { openRedisDatabase, type RedisDatabase } from '../../support/private-redis.ts';

let own: RedisDatabase;

test.before(async () => {
  own = await openRedisDatabase();
});

test.after.always(() => own?.[Symbol.asyncDispose]());

test('lists the workers of a pool, or all, except those that are dead or take no more jobs', async (t) => {
  for (const [workerId, pools] of Object.entries({ one: ['a'], both: ['a', 'b'], leaving: [], dead: ['a'] }))
    await createRenewShares(own.redis, { workerId })('new', { number: 1, pools, uses: [] });
  await own.redis.zadd(sharesExpiryKey(), 1, 'dead');
  const listWorkers = createListWorkers(own.redis);
  t.deepEqual((await listWorkers('a')).toSorted(), ['both', 'one']);
  t.deepEqual(await listWorkers('b'), ['both']);
  t.deepEqual(await listWorkers('none'), []);
  t.deepEqual((await listWorkers()).toSorted(), ['both', 'one']);
});
