import test from 'ava';
import { createLimitCalls, createMinuteCounts } from '../../../ingress/limits/minute-counts.ts';
import { ApiError, errorHeaders } from '../../../shared/errors.ts';
import { guestCallsKey } from '../../../shared/redis/keys.ts';
import { openRedisDatabase, type RedisDatabase } from '../../support/private-redis.ts';
import { recordedLog } from '../../support/recorded-log.ts';

const network = '203.0.113.7';
const perMinute = 60;

let own: RedisDatabase;
test.before(async () => {
  own = await openRedisDatabase();
});
test.after.always(() => own?.[Symbol.asyncDispose]());

function createSubject() {
  const { log } = recordedLog();
  const limitCalls = createLimitCalls({
    kind: 'guest_calls',
    calls: createMinuteCounts({ redis: own.redis, keyOf: guestCallsKey, log }),
  });
  return (network: string) => limitCalls(network, perMinute);
}

test('the limit of calls of a network within a minute holds across all ingresses', async (t) => {
  const ingresses = [createSubject(), createSubject(), createSubject()];
  const calls = Array.from({ length: 90 }, (_, index) => ingresses[index % 3]?.(network));
  const outcomes = await Promise.allSettled(calls);
  const refused = outcomes.filter((outcome) => outcome.status === 'rejected');
  t.is(refused.length, 90 - perMinute);
  for (const { reason } of refused) t.like(reason, { code: 'rate_limit_exceeded', fields: { type: 'guest_calls' } });
  await t.notThrowsAsync(async () => ingresses[0]?.('203.0.113.8'));
});

test('beyond the limit a call is refused without I/O, with the time until the next one is admitted', async (t) => {
  const limitCalls = createSubject();
  const from = '2001:db8:0:1::/64';
  for (let call = 0; call < perMinute; call++) await limitCalls(from);
  await t.throwsAsync(limitCalls(from));
  const counted = await own.redis.get(guestCallsKey(from));
  const error = await t.throwsAsync(limitCalls(from), { instanceOf: ApiError });
  t.is(await own.redis.get(guestCallsKey(from)), counted);
  const waitMs = Number(error?.fields.retry_after_ms);
  const leftMs = await own.redis.pttl(guestCallsKey(from));
  t.true(waitMs > leftMs && waitMs < leftMs + 1_000, `${waitMs} where ${leftMs} are left`);
  t.is(error && errorHeaders(error)['retry-after-ms'], String(waitMs));

  await own.redis.del(guestCallsKey(from));
  await t.notThrowsAsync(createSubject()(from), 'after its minute');
});
