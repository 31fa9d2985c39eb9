import test from 'ava';
import { createMarkChange, createUnmarkChange, markLifeMs } from '../../../shared/account-changes/change-account.ts';
import { ApiError } from '../../../shared/errors.ts';
import { connectForRequests } from '../../../shared/redis/connections.ts';
import { changesKey, fillKey, versionKey } from '../../../shared/redis/keys.ts';
import { type PrivateRedis, startPrivateRedis } from '../../support/private-redis.ts';
import { recordedLog } from '../../support/recorded-log.ts';
import { replaceClock } from '../../support/redis-clock.ts';

const account = 'user:alice';
const now = 1_900_000_000_000;

let own: PrivateRedis;
let setTime: (nowMs: number) => Promise<void>;
let mark: ReturnType<typeof createMarkChange>;
let unmark: ReturnType<typeof createUnmarkChange>;

test.before(async () => {
  own = await startPrivateRedis();
  setTime = replaceClock(own.redis);
  mark = createMarkChange(own.redis);
  unmark = createUnmarkChange(own.redis);
});

test.after.always(() => own?.[Symbol.asyncDispose]());

test.beforeEach(async () => {
  await own.redis.flushall();
  await setTime(now);
});

async function fill(): Promise<void> {
  await own.redis.set(versionKey(account), 7);
  await own.redis.set(fillKey(account), 'req_1');
}

const filled = () => own.redis.mget(versionKey(account), fillKey(account));

/** Each mark with its expiry in milliseconds. */
async function marks(): Promise<Record<string, number>> {
  const listed = await own.redis.zrange(changesKey(account), '0', '-1');
  const ends = listed.map(async (id) => [id, Number(await own.redis.zscore(changesKey(account), id))]);
  return Object.fromEntries(await Promise.all(ends));
}

test.serial('a mark deletes the version and the fill token, and stays until it expires', async (t) => {
  await fill();
  await mark(account, 'one');
  t.deepEqual(await filled(), [null, null]);
  t.deepEqual(await marks(), { one: now + markLifeMs });
});

test.serial('removing a mark also deletes a version and a fill token that were set meanwhile', async (t) => {
  await mark(account, 'one');
  await fill();
  await unmark(account, 'one');
  t.deepEqual(await filled(), [null, null]);
  t.deepEqual(await marks(), {});
  t.deepEqual(await own.redis.keys('svc:*'), [], 'nothing is left after a change');
});

test.serial('a mark that is set twice exists once with the later expiry, and is removed at once', async (t) => {
  await mark(account, 'one');
  await setTime(now + 5);
  await mark(account, 'one');
  t.deepEqual(await marks(), { one: now + 5 + markLifeMs });
  await unmark(account, 'one');
  t.deepEqual(await marks(), {});
  await fill();
  await unmark(account, 'one');
  t.deepEqual([await marks(), await filled()], [{}, [null, null]]);
});

test.serial('two concurrent changes have a mark each, and removing one keeps the other', async (t) => {
  await mark(account, 'one');
  await setTime(now + 10);
  await mark(account, 'two');
  t.deepEqual(await marks(), { one: now + markLifeMs, two: now + 10 + markLifeMs });
  await unmark(account, 'one');
  t.deepEqual(await marks(), { two: now + 10 + markLifeMs });
  await unmark(account, 'one');
  await unmark(account, 'of another change');
  t.deepEqual(await marks(), { two: now + 10 + markLifeMs });
  await unmark(account, 'two');
  t.deepEqual(await marks(), {});
});

test.serial('a mark that was not removed is deleted by the next change after its expiry', async (t) => {
  await mark(account, 'left');
  await setTime(now + markLifeMs - 1);
  await mark(account, 'two');
  t.deepEqual(Object.keys(await marks()), ['left', 'two']);
  await unmark(account, 'two');
  t.deepEqual(Object.keys(await marks()), ['left']);
  await setTime(now + markLifeMs);
  await mark(account, 'three');
  t.deepEqual(Object.keys(await marks()), ['three']);
});

test.serial('Redis deletes the marks when the last one has expired, and not earlier', async (t) => {
  await mark(account, 'one');
  await own.redis.pexpire(changesKey(account), 1_000);
  await mark(account, 'two');
  const leftMs = await own.redis.pttl(changesKey(account));
  t.true(leftMs > markLifeMs - 10_000 && leftMs <= markLifeMs, String(leftMs));
  await unmark(account, 'two');
  t.true((await own.redis.pttl(changesKey(account))) > 0, 'also with one removed');
});

test.serial('accounts are marked separately', async (t) => {
  await fill();
  await mark('user:bob', 'one');
  await unmark('user:bob', 'one');
  t.deepEqual(await filled(), ['7', 'req_1']);
  t.deepEqual(await marks(), {});
});

test.serial('a full Redis accepts marks, so that a key can be revoked', async (t) => {
  await fill();
  await own.redis.config('SET', 'maxmemory', '1');
  t.teardown(() => own.redis.config('SET', 'maxmemory', '0'));
  await t.throwsAsync(own.redis.set('svc:anything', 'else'), { message: /OOM/ });
  await mark(account, 'one');
  t.deepEqual(await marks(), { one: now + markLifeMs });
  t.deepEqual(await filled(), [null, null]);
  await unmark(account, 'one');
  t.deepEqual(await marks(), {});
});

test.serial('a mark lives longer than a call of the store may take, and shorter than admit.lua accepts', (t) => {
  t.true(markLifeMs > 5_000 * 2);
  t.true(markLifeMs <= 60_000, 'admit.lua discards a mark that expires later');
});

test.serial('without Redis both are SERVICE_UNAVAILABLE', async (t) => {
  const redis = connectForRequests('redis://127.0.0.1:1', recordedLog().log);
  t.teardown(() => redis.disconnect());
  for (const step of [createMarkChange(redis), createUnmarkChange(redis)]) {
    const error = await t.throwsAsync(step(account, 'one'), { instanceOf: ApiError });
    t.is(error?.code, 'SERVICE_UNAVAILABLE');
  }
});
