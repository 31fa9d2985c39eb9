import test from 'ava';
import { createLimitPeaks } from '../../../ingress/limits/limit-peaks.ts';
import { peaksKey } from '../../../shared/redis/keys.ts';
import { openRedisDatabase, type RedisDatabase } from '../../support/private-redis.ts';
import { recordedLog } from '../../support/recorded-log.ts';

let own: RedisDatabase;
test.before(async () => {
  own = await openRedisDatabase();
});
test.after.always(() => own?.[Symbol.asyncDispose]());

const noon = Date.parse('2026-12-05T12:00:00Z');

function peaksAt(clock: { now: number }) {
  return createLimitPeaks({ redis: own.redis, log: recordedLog().log, now: () => clock.now });
}

test('the highest use of the last hour is that of all processes, and forgets what is older', async (t) => {
  const clock = { now: noon };
  const account = 'user:ann';
  for (const [minutes, use] of [
    [0, { requests: 9, tokens: 50, atOnce: 1 }],
    [20, { requests: 3, tokens: 700, atOnce: 2 }],
    [21, { requests: 5, tokens: 600, atOnce: 4 }],
  ] as const) {
    clock.now = noon + minutes * 60_000;
    await using one = peaksAt(clock);
    one.note(account, use);
    one.note(account, { requests: 1, tokens: 1, atOnce: 1 });
    t.like(await one.read(account), { requests: Math.max(9, use.requests) }, 'also before it is written');
  }
  await using peaks = peaksAt(clock);
  t.deepEqual(await peaks.read(account), { requests: 9, tokens: 700, atOnce: 4 });
  clock.now = noon + 70 * 60_000 - 1;
  t.deepEqual(await peaks.read(account), { requests: 9, tokens: 700, atOnce: 4 }, 'at least an hour');
  clock.now = noon + 70 * 60_000;
  t.deepEqual(await peaks.read(account), { requests: 5, tokens: 700, atOnce: 4 });
  clock.now = noon + 90 * 60_000;
  t.deepEqual(await peaks.read(account), { requests: 0, tokens: 0, atOnce: 0 });
  t.deepEqual(await peaks.read('user:bob'), { requests: 0, tokens: 0, atOnce: 0 });
});

test('old steps are removed, and the key expires', async (t) => {
  const clock = { now: noon };
  const account = 'user:steps';
  for (let step = 0; step < 20; step += 1) {
    clock.now = noon + step * 600_000;
    await using peaks = peaksAt(clock);
    peaks.note(account, { requests: 1, tokens: 1, atOnce: 1 });
  }
  t.true((await own.redis.hlen(peaksKey(account))) <= 8);
  const lifeMs = await own.redis.pttl(peaksKey(account));
  t.true(lifeMs > 70 * 60_000 && lifeMs <= 80 * 60_000);
});
