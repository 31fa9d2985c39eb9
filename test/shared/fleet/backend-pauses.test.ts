import test from 'ava';
import { createBackendPauses } from '../../../shared/fleet/backend-pauses.ts';
import { backendPauseKey } from '../../../shared/redis/keys.ts';
import { openRedisDatabase, type RedisDatabase } from '../../support/private-redis.ts';

let own: RedisDatabase;
test.before(async () => {
  own = await openRedisDatabase();
});
test.after.always(() => own?.[Symbol.asyncDispose]());

const pause = { since: 1_000_000, until: 1_060_000, by: 'user:olga', reason: null };

test.serial('a pause is what was set last, until its time is over or an operator ends it', async (t) => {
  const pauses = createBackendPauses(own.redis);
  t.deepEqual(
    [...(await pauses.read(['a', 'b:/@']))],
    [
      ['a', null],
      ['b:/@', null],
    ],
  );
  await pauses.set('a', pause);
  const later = { ...pause, until: 1_030_000, reason: 'why' };
  await pauses.set('b:/@', pause);
  await pauses.set('a', later);
  t.deepEqual((await pauses.read(['a'])).get('a'), later);
  t.deepEqual((await pauses.read(['b:/@'])).get('b:/@'), pause);
  const leftMs = await own.redis.pttl(backendPauseKey('a'));
  t.true(leftMs > 0 && leftMs <= 30_000, `${leftMs}`);
  await pauses.end('a');
  await pauses.end('a');
  t.is((await pauses.read(['a'])).get('a'), null);
  t.deepEqual([...(await pauses.read([]))], []);
});
