import test from 'ava';
import { Redis } from 'ioredis';
import { ApiError } from '../../../shared/errors.ts';
import { createAdmit } from '../../../shared/limits/admit.ts';
import { type PrivateRedis, startPrivateRedis } from '../../support/private-redis.ts';
import { replaceClock } from '../../support/redis-clock.ts';

let own: PrivateRedis;
let admit: ReturnType<typeof createAdmit>;
let setTime: (nowMs: number) => Promise<void>;

test.before(async () => {
  own = await startPrivateRedis();
  setTime = replaceClock(own.redis);
  admit = createAdmit(own.redis, { queueMs: 30_000, requestMs: 600_000 });
});

test.after.always(async () => {
  await own?.[Symbol.asyncDispose]();
});

const request = { account: 'user:alice', requestId: 'req_1' };

test.serial('a request gets its times from the clock of Redis, in whole milliseconds', async (t) => {
  for (const now of [1_900_000_000_000, 1_900_000_000_001, 1_900_000_000_999]) {
    await setTime(now);
    t.deepEqual(await admit(request), { admittedAt: now, startBy: now + 30_000, deadline: now + 600_000 });
  }
});

test.serial('asking twice writes nothing', async (t) => {
  await setTime(1_900_000_000_000);
  const before = await own.redis.dbsize();
  t.deepEqual(await admit(request), await admit(request));
  t.is(await own.redis.dbsize(), before);
});

test.serial('without a replaced clock the time is that of Redis', async (t) => {
  const plain = new Redis(own.server.url);
  t.teardown(() => plain.disconnect());
  const [seconds] = (await plain.time()).map(Number);
  const { admittedAt } = await createAdmit(plain, { queueMs: 1, requestMs: 2 })(request);
  const passed = admittedAt - (seconds ?? 0) * 1_000;
  t.true(passed >= 0 && passed < 60_000);
});

test.serial('a Redis that takes nothing more is SERVICE_UNAVAILABLE, with the reason kept for the log', async (t) => {
  await own.redis.config('SET', 'maxmemory', '1');
  t.teardown(() => own.redis.config('SET', 'maxmemory', '0'));
  const error = await t.throwsAsync(admit(request), { instanceOf: ApiError });
  t.is(error?.code, 'SERVICE_UNAVAILABLE');
  t.regex(String(error?.cause), /OOM|memory/);
});
