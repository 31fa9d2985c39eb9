import test from 'ava';
import { entryOf } from '../../../shared/jobs/usage-outbox.ts';
import { outboxKey, outboxMarksKey } from '../../../shared/redis/keys.ts';
import { redisNow } from '../../../shared/redis/redis-now.ts';
import { entryBefore, summedUpTo } from '../../../workers/usage/reconcile-month.ts';
import { openRedisDatabase } from '../../support/private-redis.ts';

test('the entry before an id is the last one that sorts before it', (t) => {
  t.is(entryBefore('1700000000000-5'), entryOf('1700000000000-4'));
  t.is(entryBefore('1700000000000-0'), entryOf('1699999999999-9999999999'));
  t.true(entryBefore('1700000000000-0') < entryOf('1700000000000-0'));
});

test('it is before waiting entries and before now, and never before drained entries', async (t) => {
  await using own = await openRedisDatabase();
  const { redis } = own;
  const [outbox, marks] = [outboxKey(7), outboxMarksKey(7)];

  const from = await redisNow(redis);
  const ofNothing = await summedUpTo(redis, 7);
  t.true(ofNothing >= entryBefore(`${from}-0`) && ofNothing < entryOf(`${(await redisNow(redis)) + 1}-0`));

  for (const id of ['1000-0', '1000-1', '2000-0']) await redis.xadd(outbox, id, 'a', 'b');
  t.is(await summedUpTo(redis, 7), entryBefore('1000-0'));
  await redis.hset(marks, 'drained', '1000-0');
  t.is(await summedUpTo(redis, 7), entryOf('1000-0'));
  await redis.hset(marks, 'drained', '1000-1');
  t.is(await summedUpTo(redis, 7), entryBefore('2000-0'));
  await redis.hset(marks, 'drained', '2000-0');
  t.true((await summedUpTo(redis, 7)) >= ofNothing);

  const ahead = `${from + 3_600_000}-0`;
  await redis.hset(marks, 'drained', ahead);
  t.is(await summedUpTo(redis, 7), entryOf(ahead), 'its clock was set back');
});
