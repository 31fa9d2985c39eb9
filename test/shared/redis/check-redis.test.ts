import test from 'ava';
import { createCheckWrites } from '../../../shared/redis/check-redis.ts';
import { type PrivateRedis, startPrivateRedis } from '../../support/private-redis.ts';

let own: PrivateRedis;
test.before(async () => {
  own = await startPrivateRedis();
});
test.after.always(() => own?.[Symbol.asyncDispose]());

const check = () => createCheckWrites(own.redis)(['svc:{small-chat}', 'svc:{large-chat}']);
const reasonOf = (error: unknown) => (error instanceof AggregateError ? String(error.errors[0]) : String(error));

test.serial('a Redis that is out of memory, or that only reads, does not pass; one that writes does', async (t) => {
  await t.notThrowsAsync(check());
  await own.redis.config('SET', 'maxmemory', '1');
  t.regex(reasonOf(await t.throwsAsync(check())), /OOM/);
  await own.redis.config('SET', 'maxmemory', '0');
  await t.notThrowsAsync(check());

  await own.redis.replicaof('127.0.0.1', '1');
  t.regex(reasonOf(await t.throwsAsync(check())), /READONLY/);
  await own.redis.replicaof('NO', 'ONE');
  await t.notThrowsAsync(check());
  t.deepEqual(await own.redis.keys('*'), [], 'nothing is written');
});

test.serial('a process without any queue checks Redis, too', async (t) => {
  const checkWithoutKeys = () => createCheckWrites(own.redis)([]);
  await t.notThrowsAsync(checkWithoutKeys());
  await own.redis.config('SET', 'maxmemory', '1');
  t.regex(reasonOf(await t.throwsAsync(checkWithoutKeys())), /OOM/);
  await own.redis.config('SET', 'maxmemory', '0');
});
