import test from 'ava';
import { makeKey } from '../../../ingress/authentication/api-key.ts';
import { keyCredential } from '../../../ingress/authentication/authorization.ts';
import { createCallers, createSharedCallers } from '../../../ingress/authentication/callers.ts';
import { ApiError } from '../../../shared/errors.ts';
import { connectForRequests, type Redis } from '../../../shared/redis/connections.ts';
import { callerKey } from '../../../shared/redis/keys.ts';
import type { Caller } from '../../../shared/store/records/account.ts';
import { type PrivateRedis, startPrivateRedis } from '../../support/private-redis.ts';
import { recordedLog } from '../../support/recorded-log.ts';

const hash = 'the hash of a key';
const alice: Caller = {
  account: 'user:alice',
  keyId: 'key_1',
  plan: 'free',
  suspended: false,
  overageEnabled: false,
  version: 4,
};
const hourMs = 3_600_000;

let own: PrivateRedis;

test.before(async () => {
  own = await startPrivateRedis();
});

test.after.always(() => own?.[Symbol.asyncDispose]());

test.beforeEach(async () => {
  await own.redis.flushall();
});

const secretsInUse = 'the name of all secrets';
const keyOf = (hash: string) => callerKey(secretsInUse, hash);
const createSubject = (options = {}) =>
  createSharedCallers({ redis: own.redis, secretsInUse, log: recordedLog().log, ...options });

test.serial('a caller that one ingress puts is found unchanged by the others', async (t) => {
  await createSubject().put(hash, alice);
  const found = await createSubject().get(hash);
  t.deepEqual(found?.caller, alice);
  t.true(found !== undefined && found.ageMs >= 0 && found.ageMs < 60_000);

  const device = { account: 'device:0', plan: 'guest-device', suspended: true, overageEnabled: true, version: 0 };
  await createSubject().put('another hash', device);
  t.deepEqual((await createSubject().get('another hash'))?.caller, device);
  t.deepEqual((await createSubject().get(hash))?.caller, alice);

  const toppedUp = { ...alice, topUp: { month: '2026-03', tokens: 500 } };
  await createSubject().put(hash, toppedUp);
  t.deepEqual((await createSubject().get(hash))?.caller, toppedUp);
});

test.serial('the caller of a further key is found with what it may do', async (t) => {
  const further = { ...alice, keyScope: { endsAt: 5, models: ['small-chat'], limits: { requestsPerMinute: 1 } } };
  await createSubject().put(hash, further);
  t.deepEqual((await createSubject().get(hash))?.caller, further);
});

test.serial('an ingress with other secrets does not find the caller, because it may not accept that key', async (t) => {
  await createSubject().put(hash, alice);
  t.is(await createSubject({ secretsInUse: 'the name of others' }).get(hash), undefined);
});

test.serial('an unknown caller is not found', async (t) => {
  t.is(await createSubject().get(hash), undefined);
});

test.serial(
  'its age counts from the read of the store, by the clock of Redis, and it expires after an hour',
  async (t) => {
    const { get, put } = createSubject();
    await put(hash, alice);
    const leftMs = await own.redis.pttl(keyOf(hash));
    t.true(leftMs > hourMs - 60_000 && leftMs <= hourMs);
    await own.redis.pexpire(keyOf(hash), hourMs - 600_000);
    const { ageMs = 0 } = (await get(hash)) ?? {};
    t.true(ageMs >= 600_000 && ageMs < 660_000, String(ageMs));
    await put(hash, { ...alice, version: 5 });
    const renewed = await get(hash);
    t.true(renewed?.caller.version === 5 && renewed.ageMs < 60_000, 'the last read counts, with its time');
  },
);

test.serial('a caller of unknown age has the maximum age', async (t) => {
  const { get, put } = createSubject();
  await put(hash, alice);
  await own.redis.persist(keyOf(hash));
  t.deepEqual(await get(hash), { caller: alice, ageMs: hourMs }, 'it never expires');
  await own.redis.pexpire(keyOf(hash), hourMs + 600_000);
  t.deepEqual(await get(hash), { caller: alice, ageMs: hourMs }, 'the clock was set back');
});

const garbage = [
  '',
  'not JSON',
  '{"account":"user:al',
  'null',
  '[]',
  '"user:alice"',
  '{}',
  JSON.stringify({ ...alice, version: '4' }),
  JSON.stringify({ ...alice, version: 4.5 }),
  JSON.stringify({ ...alice, suspended: undefined }),
  JSON.stringify({ ...alice, plan: null }),
];

test.serial(
  'an invalid value is not found, so that the key is read from the store and the value is replaced',
  async (t) => {
    const { get, put } = createSubject();
    for (const text of garbage) {
      await own.redis.set(keyOf(hash), text, 'PX', hourMs);
      t.is(await get(hash), undefined, text);
      await put(hash, alice);
      t.deepEqual((await get(hash))?.caller, alice, text);
    }
  },
);

test.serial('an active key is accepted with any invalid value in Redis', async (t) => {
  for (const text of garbage) {
    const credential = keyCredential(makeKey(), ['the pepper']);
    await own.redis.set(keyOf(credential.hashes[0] ?? ''), text, 'PX', hourMs);
    const { account, keyId = '', plan, suspended, overageEnabled, version } = alice;
    const callers = createCallers({
      store: {
        findKeyOwner: async () => ({ account, keyId, plan, suspended, overageEnabled, version }),
        findAccount: async () => undefined,
      },
      sharedCallers: createSubject(),
      guestSecretsInUse: () => true,
      defaultPlan: () => 'free',
    });
    t.deepEqual(await callers.find(credential), alice, text);
  }
});

test.serial('fields of a later release do not disturb this one', async (t) => {
  await own.redis.set(keyOf(hash), JSON.stringify({ ...alice, region: 'eu' }), 'PX', hourMs);
  t.deepEqual((await createSubject().get(hash))?.caller, alice);
});

test.serial('without Redis get is SERVICE_UNAVAILABLE, and put never fails', async (t) => {
  const redis = connectForRequests('redis://127.0.0.1:1', recordedLog().log);
  t.teardown(() => redis.disconnect());
  const { log, lines } = recordedLog();
  const { get, put } = createSubject({ redis, log });
  t.is((await t.throwsAsync(get(hash), { instanceOf: ApiError }))?.code, 'SERVICE_UNAVAILABLE');
  await t.notThrowsAsync(put(hash, alice));
  t.deepEqual(
    lines.map(({ level }) => level),
    ['debug'],
  );
});

test.serial('with a full Redis get works, and put never fails', async (t) => {
  const { get, put } = createSubject();
  await put(hash, alice);
  await own.redis.config('SET', 'maxmemory', '1');
  t.teardown(() => own.redis.config('SET', 'maxmemory', '0'));
  await t.notThrowsAsync(put(hash, { ...alice, version: 5 }));
  t.deepEqual((await get(hash))?.caller, alice);
});

test('in a cluster, a node that does not answer has no callers', async (t) => {
  const away = async () => {
    throw new Error('Connection is closed.');
  };
  const redis = { isCluster: true, get: away, pttl: away } as unknown as Redis;
  t.is(await createSubject({ redis }).get(hash), undefined);
});
