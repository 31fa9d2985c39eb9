import test from 'ava';
import { ApiError } from '../../../shared/errors.ts';
import { type Admit, createAdmit } from '../../../shared/limits/admit.ts';
import { changesKey, fillKey, versionKey } from '../../../shared/redis/keys.ts';
import { lostReport } from '../../support/limits-side.ts';
import { type PrivateRedis, startPrivateRedis } from '../../support/private-redis.ts';
import { replaceClock } from '../../support/redis-clock.ts';

const timeouts = { queueMs: 30_000, requestMs: 600_000 };

const account = 'user:alice';
const now = 1_900_000_000_000;
const hourMs = 3_600_000;
const nothing = { allowance: { overageEnabled: false }, reservedTokens: 1, report: lostReport };

let own: PrivateRedis;
let admission: Admit;
let setTime: (nowMs: number) => Promise<void>;

test.before(async () => {
  own = await startPrivateRedis();
  setTime = replaceClock(own.redis);
  admission = createAdmit(own.redis, { timeouts: () => timeouts, outboxLengthMax: 1_000 });
});

test.after.always(() => own?.[Symbol.asyncDispose]());

test.beforeEach(async () => {
  await own.redis.del(versionKey(account), fillKey(account), changesKey(account));
  await setTime(now);
});

const known = (requestId: string, version?: number) => admission.look({ account, requestId, version });
const read = (token: string, version: number) =>
  admission.look({ account, requestId: `of ${token}`, version, reading: { token } });
/** Marks a change as production code does: it deletes version and fill token in the same step. */
const mark = (id: string, endsAt: number) =>
  own.redis.multi().del(versionKey(account), fillKey(account)).zadd(changesKey(account), endsAt, id).exec();
const storedVersion = () => own.redis.get(versionKey(account));

async function outcomes(...answers: Promise<{ outcome: string }>[]): Promise<string[]> {
  return (await Promise.all(answers)).map(({ outcome }) => outcome);
}

test.serial('a caller of the current version is accepted, one of any other version must be read again', async (t) => {
  await own.redis.set(versionKey(account), 7);
  t.deepEqual(await outcomes(known('a', 7)), ['current']);
  t.deepEqual(await outcomes(known('b', 6), known('c', 8), known('d')), ['stale', 'stale', 'stale']);
  t.like(await admission.readCounters({ account, requestId: 'e', version: 6 }), { outcome: 'stale' });
  t.like(await admission.admit({ account, requestId: 'f', version: 6 }, nothing), { outcome: 'stale' });
});

test.serial('use extends the life of a version, and an unused one expires after an hour', async (t) => {
  await own.redis.set(versionKey(account), 7, 'PX', 1_000);
  await known('a', 7);
  const leftMs = await own.redis.pttl(versionKey(account));
  t.true(leftMs > hourMs - 60_000 && leftMs <= hourMs);
});

test.serial('use writes nothing while a version has more than half of its life left', async (t) => {
  await own.redis.set(versionKey(account), 7, 'PX', 0.6 * hourMs);
  await known('a', 7);
  t.true((await own.redis.pttl(versionKey(account))) <= 0.6 * hourMs);
});

test.serial(
  'a missing version is filled by the first reader of the caller, and callers of that version are accepted from then on',
  async (t) => {
    t.deepEqual(await outcomes(known('a', 3)), ['stale']);
    t.deepEqual(await outcomes(read('a', 4)), ['current']);
    t.is(await storedVersion(), '4');
    t.deepEqual(await outcomes(known('b', 4), known('c', 3)), ['current', 'stale']);
  },
);

test.serial('a version that differs from the store is corrected by a reading', async (t) => {
  await own.redis.set(versionKey(account), 9);
  t.deepEqual(await outcomes(known('a', 5)), ['stale']);
  t.deepEqual(await outcomes(read('a', 5)), ['current']);
  t.is(await storedVersion(), '5');
});

test.serial('concurrent readings share one token, and the first of them fills the version', async (t) => {
  t.deepEqual(await known('a', 1), { outcome: 'stale', reading: { token: 'a' } });
  t.deepEqual(await known('b', 1), { outcome: 'stale', reading: { token: 'a' } });
  t.deepEqual(await outcomes(read('a', 1), read('a', 1)), ['current', 'current']);
  t.is(await storedVersion(), '1');
  t.deepEqual(await known('c', 2), { outcome: 'stale', reading: { token: 'c' } }, 'the next reading gets a new token');
  t.deepEqual(await outcomes(read('b', 2), read('c', 2)), ['current', 'current']);
  t.is(await storedVersion(), '2');
});

test.serial('an account that is used all the time still gets its version', async (t) => {
  const first = await known('0', 1);
  for (let count = 1; count < 100; count++) await known(String(count), 1);
  if (first.outcome !== 'stale') return t.fail();
  await read(first.reading.token, 1);
  t.deepEqual(await outcomes(known('later', 1)), ['current']);
});

test.serial('an unused token expires within the time that a reading may take', async (t) => {
  await known('a', 1);
  const leftMs = await own.redis.pttl(fillKey(account));
  t.true(leftMs > 5_000 && leftMs <= 15_000);
});

test.serial('while a change is marked no caller is accepted as known, and no version is filled', async (t) => {
  await own.redis.set(versionKey(account), 7);
  await mark('change', now + 1);
  t.deepEqual(await outcomes(known('a', 7)), ['stale']);
  t.is(await own.redis.get(fillKey(account)), null);
  await own.redis.set(fillKey(account), 'a');
  t.deepEqual(await outcomes(read('a', 8)), ['current']);
  t.is(await storedVersion(), null);
});

test.serial('a mark is valid until its end and no longer, independently of other marks', async (t) => {
  await mark('one', now + 10);
  await mark('another', now + 20);
  await setTime(now + 19);
  t.deepEqual(await outcomes(known('a', 7), read('a', 7), known('b', 7)), ['stale', 'current', 'stale']);
  await setTime(now + 20);
  t.deepEqual(await outcomes(known('a', 7), read('a', 7), known('b', 7)), ['stale', 'current', 'current']);
});

test.serial('a mark from a clock that was set back by more than a minute is ignored', async (t) => {
  await mark('change', now + 60_001);
  t.deepEqual(await outcomes(known('a', 7), read('a', 7), known('b', 7)), ['stale', 'current', 'current']);
  await mark('change', now + 60_000);
  t.deepEqual(await outcomes(known('a', 7), read('a', 7), known('b', 7)), ['stale', 'current', 'stale']);
});

test.serial('a reading that was announced before a change does not fill the version that it reads', async (t) => {
  t.deepEqual(await outcomes(known('a', 1)), ['stale']);
  await own.redis.del(versionKey(account), fillKey(account)); // what marking and unmarking do
  t.deepEqual(await outcomes(read('a', 1)), ['current']);
  t.is(await storedVersion(), null);
});

test.serial('the versions of different accounts are independent', async (t) => {
  await own.redis.set(versionKey(account), 7);
  const other = await admission.look({ account: 'user:bob', requestId: 'a', version: 7 });
  t.is(other.outcome, 'stale');
});

test.serial('checking a current caller adds no key to Redis', async (t) => {
  await own.redis.set(versionKey(account), 7);
  const before = await own.redis.dbsize();
  await known('a', 7);
  await known('a', 7);
  t.is(await own.redis.dbsize(), before);
});

test.serial(
  'a Redis that is out of memory admits nothing, keeps the reason for the log, and still answers look',
  async (t) => {
    await own.redis.config('SET', 'maxmemory', '1');
    t.teardown(() => own.redis.config('SET', 'maxmemory', '0'));
    const error = await t.throwsAsync(admission.admit({ account, requestId: 'a', version: 1 }, nothing), {
      instanceOf: ApiError,
    });
    t.is(error?.code, 'SERVICE_UNAVAILABLE');
    t.regex(String(error?.cause), /OOM|memory/);
    t.deepEqual(await outcomes(known('b', 1)), ['stale']);
    t.deepEqual(await outcomes(read('b', 1), known('c', 1)), ['current', 'current']);
  },
);
