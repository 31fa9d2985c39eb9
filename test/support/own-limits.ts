import type { TestFn } from 'ava';
import { openLimits } from './limits-side.ts';
import { openRedisDatabase, type RedisDatabase } from './private-redis.ts';
import { replaceClock } from './redis-clock.ts';

/** Noon of a day in the middle of a month, at the start of a bucket of 5 s. */
export const noon = Date.UTC(2030, 4, 15, 12);

/** A Redis database for the limits in the tests of this file, whose scripts read the time that the tests set. */
export function openOwnLimits(test: TestFn) {
  let database: RedisDatabase;
  let setTime: ReturnType<typeof replaceClock>;
  let accounts = 0;
  test.before(async () => {
    database = await openRedisDatabase();
    setTime = replaceClock(database.redis);
  });
  test.after.always(() => database?.[Symbol.asyncDispose]());

  return {
    database: () => database,
    redis: () => database.redis,
    setTime: (nowMs: number) => setTime(nowMs),
    /** A new account, known and counted from noon. */
    async freshAccount(options: Parameters<typeof openLimits>[1] = {}) {
      await setTime(noon);
      const side = openLimits(database.redis, { account: `user:${accounts++}`, ...options });
      await side.prepare('2030-05');
      return side;
    },
  };
}
