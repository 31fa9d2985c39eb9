import test from 'ava';
import { createRefusalCounts } from '../../../ingress/limits/count-refusals.ts';
import { fieldsOf, parseRefusals } from '../../../shared/jobs/usage-outbox.ts';
import type { Redis } from '../../../shared/redis/connections.ts';
import { outboxKey, partitionCount } from '../../../shared/redis/keys.ts';
import { openRedisDatabase } from '../../support/private-redis.ts';
import { recordedLog } from '../../support/recorded-log.ts';

const refusal = { account: 'user:ann', keyId: 'key_1', code: 'rate_limit_exceeded' } as const;
const evening = Date.parse('2026-12-05T23:59:59.999Z');

type Given = Partial<Parameters<typeof createRefusalCounts>[0]>;

function counting(redis: Redis, given: Given = {}) {
  const { log, lines } = recordedLog();
  const counts = createRefusalCounts({ redis, outboxLengthMax: 10, log, now: () => evening, ...given });
  return { ...counts, lines };
}

async function entriesOf(redis: Redis) {
  const entries = await Promise.all(
    Array.from({ length: partitionCount }, (_, partition) => redis.xrange(outboxKey(partition), '-', '+')),
  );
  return entries.flat().map(([id, fields]) => parseRefusals(id, fieldsOf(fields)) ?? []);
}

async function written(redis: Redis) {
  return (await entriesOf(redis)).flat().map(({ entry: _, ...counted }) => counted);
}

test('refusals are counted by account, hour, key and code, and each is written once', async (t) => {
  await using own = await openRedisDatabase();
  let now = evening;
  {
    await using counts = counting(own.redis, { now: () => now });
    for (let time = 0; time < 3; time += 1) counts.count(refusal);
    counts.count({ account: '', keyId: '', code: 'INVALID_KEY' });
    now += 1;
    counts.count(refusal);
  }
  const byText = (one: object, other: object) => (JSON.stringify(one) < JSON.stringify(other) ? -1 : 1);
  t.deepEqual((await written(own.redis)).sort(byText), [
    { account: '', start: '2026-12-05T23', keyId: '', code: 'INVALID_KEY', requests: 1 },
    { account: 'user:ann', start: '2026-12-05T23', keyId: 'key_1', code: 'rate_limit_exceeded', requests: 3 },
    { account: 'user:ann', start: '2026-12-06T00', keyId: 'key_1', code: 'rate_limit_exceeded', requests: 1 },
  ]);
});

test('they are written while the process runs, and an idle process writes nothing', async (t) => {
  await using own = await openRedisDatabase();
  await using counts = counting(own.redis, { writeEveryMs: 10 });
  counts.count(refusal);
  while ((await written(own.redis)).length === 0);
  t.like(await written(own.redis), [{ requests: 1 }]);
});

test('further places are counted without account and key, so that memory is bounded', async (t) => {
  await using own = await openRedisDatabase();
  {
    await using counts = counting(own.redis, { placesMax: 2 });
    for (const keyId of ['key_1', 'key_2', 'key_3', 'key_4', 'key_1']) counts.count({ ...refusal, keyId });
  }
  const found = (await written(own.redis)).map(({ account, keyId, requests }) => [account, keyId, requests]);
  t.deepEqual(found.sort(), [
    ['', '', 2],
    ['user:ann', 'key_1', 2],
    ['user:ann', 'key_2', 1],
  ]);
});

test('an entry has at most 200 counts, and none is lost between two entries', async (t) => {
  await using own = await openRedisDatabase();
  {
    await using counts = counting(own.redis);
    for (let key = 0; key < 401; key += 1) counts.count({ ...refusal, keyId: `key_${key}` });
  }
  const entries = await entriesOf(own.redis);
  t.deepEqual(
    entries.map(({ length }) => length),
    [200, 200, 1],
  );
  t.is(new Set(entries.flat().map(({ keyId }) => keyId)).size, 401);
});

test('a full outbox, and a Redis that is away, take none, and nothing fails', async (t) => {
  await using own = await openRedisDatabase();
  {
    await using full = counting(own.redis, { outboxLengthMax: 0 });
    full.count(refusal);
  }
  t.deepEqual(await written(own.redis), []);
  const away = counting(own.redis);
  await own.redis.quit();
  away.count(refusal);
  await away[Symbol.asyncDispose]();
  t.like(away.lines, [{ message: 'counts of refused requests were lost' }]);
});
