import test, { type ExecutionContext } from 'ava';
import { createLimitMints } from '../../../ingress/authentication/limit-mints.ts';
import { ApiError, errorBody, errorHeaders, errorStatus } from '../../../shared/errors.ts';
import { connectForRequests } from '../../../shared/redis/connections.ts';
import { guestMintsKey } from '../../../shared/redis/keys.ts';
import { type PrivateRedis, startPrivateRedis } from '../../support/private-redis.ts';
import { recordedLog } from '../../support/recorded-log.ts';
import { replaceClock } from '../../support/redis-clock.ts';

const allGuestMintsKey = guestMintsKey('all');

const address = '203.0.113.7';
const now = 1_900_000_000_000;
const hourMs = 3_600_000;
const mintsPerHour = 20;

let own: PrivateRedis;
let setTime: (nowMs: number) => Promise<void>;

test.before(async () => {
  own = await startPrivateRedis();
  setTime = replaceClock(own.redis);
});

test.after.always(() => own?.[Symbol.asyncDispose]());

test.beforeEach(async () => {
  await own.redis.flushall();
  await setTime(now);
});

type Options = { from?: string; limit?: number; total?: number };

/** The refusal of a device, or undefined if it is admitted. */
async function mint(device: string, options: Options = {}): Promise<ApiError | undefined> {
  const { from = address, limit = mintsPerHour, total } = options;
  const limitMints = createLimitMints(own.redis);
  return limitMints({ address: from, device }, { guestMintsPerHour: limit, guestMintsPerHourTotal: total }).then(
    () => undefined,
    (error: unknown) => {
      if (error instanceof ApiError) return error;
      throw error;
    },
  );
}

async function mintMany(t: ExecutionContext, count: number, name = 'device'): Promise<void> {
  for (let index = 0; index < count; index++) t.is(await mint(`${name}:${index}`), undefined, `${name}:${index}`);
}

const waitOf = (refusal: ApiError | undefined) => refusal?.fields.retry_after_ms;

test.serial('exactly as many devices as the limit are admitted within an hour', async (t) => {
  await mintMany(t, mintsPerHour);
  for (let index = 0; index < 3; index++) t.is((await mint(`late:${index}`))?.code, 'rate_limit_exceeded');
  t.is(await own.redis.zcard(guestMintsKey(address)), mintsPerHour, 'refused devices are not counted');
});

test.serial('each place is free again after exactly one hour', async (t) => {
  await mint('first');
  await setTime(now + 1);
  await mintMany(t, mintsPerHour - 1);
  await setTime(now + hourMs - 1);
  t.is(waitOf(await mint('next')), 1);
  await setTime(now + hourMs);
  t.is(await mint('next'), undefined);
  t.is(waitOf(await mint('after')), 1);
  await setTime(now + hourMs + 1);
  await mintMany(t, mintsPerHour - 1, 'after');
  t.is(waitOf(await mint('too many')), hourMs - 1);
});

test.serial('no more devices than the limit are admitted in any window of one hour', async (t) => {
  const admitted: number[] = [];
  for (let step = 0; step < 120; step++) {
    const at = now + step * 100_000;
    await setTime(at);
    if ((await mint(`device:${step}`, { limit: 7 })) === undefined) admitted.push(at);
  }
  for (const end of admitted) t.true(admitted.filter((at) => at > end - hourMs && at <= end).length <= 7);
  t.is(admitted.length, 7 * 4, 'the limit is used fully: 12,000 seconds touch four hours');
});

test.serial('the reported wait is exact: after it the device is admitted, and not a tenth earlier', async (t) => {
  for (const limit of [1, 2, mintsPerHour]) {
    await own.redis.flushall();
    for (let index = 0; index < limit; index++) {
      await setTime(now + index * 60_000);
      await mint(`device:${index}`, { limit });
    }
    const refusedAt = now + limit * 60_000;
    await setTime(refusedAt);
    const waitMs = Number(waitOf(await mint('patient', { limit })));
    t.is(waitMs, now + hourMs - refusedAt);
    await setTime(refusedAt + Math.floor(waitMs * 0.9));
    t.is(waitOf(await mint('patient', { limit })), Math.ceil(waitMs * 0.1));
    await setTime(refusedAt + waitMs - 1);
    t.is(waitOf(await mint('patient', { limit })), 1);
    await setTime(refusedAt + waitMs);
    t.is(await mint('patient', { limit }), undefined);
  }
});

test.serial('an admitted device is admitted again and counts once, also when the limit is reached', async (t) => {
  for (let index = 0; index < 3; index++) t.is(await mint('device:0'), undefined);
  await mintMany(t, mintsPerHour);
  t.truthy(await mint('another'));
  await mintMany(t, mintsPerHour);
  await setTime(now + hourMs - 1);
  t.is(await mint('device:0'), undefined);
  await setTime(now + hourMs);
  await mintMany(t, mintsPerHour, 'a repeated call takes no place:');
});

test.serial('addresses are counted separately', async (t) => {
  await mintMany(t, mintsPerHour);
  t.truthy(await mint('another'));
  for (const from of ['203.0.113.8', '2001:db8:0:0::/64', '2001:db8:0:1::/64', 'unknown']) {
    t.is(await mint('another', { from }), undefined, from);
  }
});

/** Returns the number of new devices that are admitted, each from the address for its number. */
async function admit(count: number, from: (index: number) => string, options: Options = {}): Promise<number> {
  let passed = 0;
  for (let index = 0; index < count; index++) {
    const refusal = await mint(`from ${from(index)} ${index}`, { ...options, from: from(index) });
    if (refusal === undefined) passed++;
  }
  return passed;
}

const hex = (value: number) => value.toString(16);

test.serial('the /64s of a /56 get four times the limit together, and those of a /48 sixteen times', async (t) => {
  const limit = 3;
  const options = { limit };
  t.is(await admit(40, (index) => `2001:db8:7:1${hex(16 + index)}::1`, options), 4 * limit, 'of one /56');
  t.is(await admit(5, () => '2001:db8:7:2::1', options), limit, 'of one /64');
  t.is(await admit(200, (index) => `2001:db8:7:${hex(0x2000 + index * 256)}::1`, options), 11 * limit, 'of the /48');
  t.is(await admit(5, () => '2001:db8:8:1::1', options), limit, 'the next /48 has a separate limit');
  t.is(await admit(40, (index) => `203.0.113.${index}`, options), 40, 'IPv4 addresses share no limit');
});

test.serial('all devices together have a limit if one is set, and the longest wait is reported', async (t) => {
  const options = { limit: 2, total: 5 };
  t.is(await admit(8, (index) => `203.0.113.${index}`, options), 5);
  await setTime(now + 1_000);
  const refusal = await mint('another', { ...options, from: '2001:db8::1' });
  t.like(refusal, { message: 'Too many new devices within an hour.', fields: { type: 'guest_mints' } });
  t.is(waitOf(refusal), hourMs - 1_000);
  t.is(await mint('another', { limit: 2, from: '2001:db8::1' }), undefined, 'if none is set');
  t.is(await mint('one more', { limit: 2, from: '2001:db8::1' }), undefined);
  // The total has room one second before the network.
  await setTime(now + hourMs - 1);
  const both = await mint('third', { ...options, from: '2001:db8::1' });
  t.like(both, { message: 'Too many new devices from this network within an hour.' });
  t.is(waitOf(both), 1_001);
});

test.serial('a device that one limit refuses is not counted anywhere', async (t) => {
  const from = '2001:db8:7:1::1';
  const keys = ['2001:db8:7:1::/64', '2001:db8:7:0::/56', '2001:db8:7::/48'].map((network) => guestMintsKey(network));
  const counts = () => Promise.all([...keys, allGuestMintsKey].map((key) => own.redis.zcard(key)));
  t.is(await mint('first', { from, limit: 1, total: 9 }), undefined);
  t.truthy(await mint('second', { from, limit: 1, total: 9 }), 'by the /64');
  t.deepEqual(await counts(), [1, 1, 1, 1]);
  t.truthy(await mint('second', { from, limit: 5, total: 1 }), 'by the total limit');
  t.deepEqual(await counts(), [1, 1, 1, 1]);
  for (const key of [...keys, allGuestMintsKey]) t.true((await own.redis.pttl(key)) > hourMs);
});

test.serial('a lowered limit applies immediately, and its wait lasts until enough devices have expired', async (t) => {
  for (let index = 0; index < 10; index++) {
    await setTime(now + index * 1_000);
    await mint(`device:${index}`);
  }
  // Eight of ten have to expire before there are fewer than three; the eighth came at seven seconds.
  t.is(waitOf(await mint('another', { limit: 3 })), 7_000 + hourMs - 9_000);
  await setTime(now + 7_000 + hourMs - 1);
  t.is(waitOf(await mint('another', { limit: 3 })), 1);
  await setTime(now + 7_000 + hourMs);
  t.is(await mint('another', { limit: 3 }), undefined);
  t.is(waitOf(await mint('one more', { limit: 3 })), 1_000);
});

test.serial('of 100 concurrent devices on five connections, exactly the limit is admitted', async (t) => {
  const connections = Array.from({ length: 5 }, () => own.connect());
  const limits = connections.map((redis) => {
    replaceClock(redis);
    return createLimitMints(redis);
  });
  const attempts = Array.from({ length: 100 }, (_, index) =>
    limits[index % 5]?.({ address, device: `d:${index}` }, { guestMintsPerHour: mintsPerHour }),
  );
  const outcomes = await Promise.allSettled(attempts);
  t.is(outcomes.filter(({ status }) => status === 'fulfilled').length, mintsPerHour);
  for (const outcome of outcomes) {
    if (outcome.status === 'rejected') t.is(outcome.reason.code, 'rate_limit_exceeded');
  }
});

test.serial('a clock that is set back a little admits no device too early', async (t) => {
  await mintMany(t, mintsPerHour);
  await setTime(now - 59_999);
  t.is(waitOf(await mint('another')), hourMs + 59_999);
  await setTime(now + hourMs - 1);
  t.is(waitOf(await mint('another')), 1);
  await setTime(now + hourMs);
  t.is(await mint('another'), undefined);
});

test.serial('counts of a clock that was ahead by a minute or more block no device', async (t) => {
  await mintMany(t, mintsPerHour);
  await setTime(now - 60_000);
  t.is(await mint('another'), undefined);
});

test.serial('a refusal is a nested 429 that tells SDKs not to retry, with the wait in body and headers', async (t) => {
  await mintMany(t, mintsPerHour);
  await setTime(now + 1_499);
  const refusal = await mint('another');
  if (refusal === undefined) return t.fail('it was admitted');
  t.is(errorStatus(refusal.code), 429);
  t.deepEqual(errorBody(refusal, 'https://docs.example'), {
    error: {
      code: 'rate_limit_exceeded',
      message: 'Too many new devices from this network within an hour.',
      param: null,
      type: 'guest_mints',
      retry_after_ms: hourMs - 1_499,
      docs: 'https://docs.example/errors#rate_limit_exceeded',
    },
  });
  t.deepEqual(errorHeaders(refusal), {
    'retry-after': '3599',
    'retry-after-ms': String(hourMs - 1_499),
    'x-should-retry': 'false',
  });
});

test.serial('SDKs may retry after a wait of a minute or less', async (t) => {
  await mintMany(t, mintsPerHour);
  await setTime(now + hourMs - 60_001);
  t.is((await mint('another'))?.headers['x-should-retry'], 'false');
  await setTime(now + hourMs - 60_000);
  const refusal = await mint('another');
  t.is(waitOf(refusal), 60_000);
  t.false('x-should-retry' in (refusal?.headers ?? {}));
});

test.serial('the counts of an address expire soon after the hour, and contain only hashes of devices', async (t) => {
  await mint('device:0123abcd');
  t.deepEqual(await own.redis.keys('svc:*'), [guestMintsKey(address)]);
  t.deepEqual(await own.redis.zrange(guestMintsKey(address), '0', '-1'), ['device:0123abcd']);
  const leftMs = await own.redis.pttl(guestMintsKey(address));
  t.true(leftMs > hourMs && leftMs <= hourMs + 60_000, String(leftMs));
});

test.serial('a full Redis is SERVICE_UNAVAILABLE, and no device is admitted', async (t) => {
  await own.redis.config('SET', 'maxmemory', '1');
  t.teardown(() => own.redis.config('SET', 'maxmemory', '0'));
  const refusal = await mint('device:0');
  t.is(refusal?.code, 'SERVICE_UNAVAILABLE');
  t.regex(String(refusal?.cause), /OOM|memory/);
});

test.serial('without Redis it is SERVICE_UNAVAILABLE', async (t) => {
  const redis = connectForRequests('redis://127.0.0.1:1', recordedLog().log);
  t.teardown(() => redis.disconnect());
  const limitMints = createLimitMints(redis);
  const error = await t.throwsAsync(limitMints({ address, device: 'device:0' }, { guestMintsPerHour: mintsPerHour }), {
    instanceOf: ApiError,
  });
  t.is(error?.code, 'SERVICE_UNAVAILABLE');
});
