import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import test from 'ava';
import { displayPart } from '../../ingress/authentication/api-key.ts';
import { createCallers, createSharedCallers } from '../../ingress/authentication/callers.ts';
import { createGuestKeys, mintGuestKey } from '../../ingress/authentication/change-keys.ts';
import { createCheckCaller } from '../../ingress/authentication/check-caller.ts';
import { changeSettings } from '../../shared/account-changes/change-settings.ts';
import { createAdmit } from '../../shared/limits/admit.ts';
import { createAskLimits } from '../../shared/limits/ask-limits.ts';
import { openStore } from '../../shared/process/open-store.ts';
import { changesKey, fillKey, versionKey } from '../../shared/redis/keys.ts';
import type { Store } from '../../shared/store/records/store.ts';
import { createRemoveUnusedDevices } from '../../workers/upkeep/remove-unused-devices.ts';
import { createSqliteHome } from '../shared/store/sqlite-home.ts';
import { startStack } from '../stack/stack.ts';
import { createKeyClient } from '../support/key-client.ts';
import { openRedisDatabase } from '../support/private-redis.ts';
import { recordedLog } from '../support/recorded-log.ts';

const oneMs = { queueMs: 1, requestMs: 1 };

const dayMs = 86_400_000;
const longAgo = new Date(Date.now() - 63 * dayMs);
const { log } = recordedLog();

/** A device whose key was minted at that time. */
async function mintAt(store: Store, guestKeys: ReturnType<typeof createGuestKeys>, deviceId: string, createdAt: Date) {
  const account = guestKeys.accountOf(deviceId);
  const { key, hash, guest } = guestKeys.mint(deviceId);
  const stored = { id: `key_${createdAt.getTime()}`, hash, display: displayPart(key), createdAt };
  const mint = mintGuestKey({ account, plan: 'guest-device', key: stored, guest }, guestKeys.inUse);
  await store.accounts.changeAccount(account, mint);
  return { account, key, hash };
}

test('a device unused for the time in the plan file is removed; minting again returns the same key, which works immediately', async (t) => {
  await using stack = await startStack({ workers: 0, guests: { guest_days_kept: 62 } });
  const keys = createKeyClient(stack);
  const secrets = JSON.parse(await readFile(join(stack.directory, 'secrets.json'), 'utf8'));
  const guestKeys = createGuestKeys({ secrets: [secrets.GUEST_KEY_SECRET], peppers: [secrets.KEY_PEPPER] });
  await using store = await openStore(stack.databaseUrl, { log });
  const unused = await mintAt(store, guestKeys, 'unused-device', longAgo);
  const used = await mintAt(store, guestKeys, 'device-in-use', longAgo);
  const suspended = await mintAt(store, guestKeys, 'suspended-device', longAgo);
  const suspend = changeSettings({ settings: { suspended: true }, by: 'user:olga', at: longAgo });
  await store.accounts.changeAccount(suspended.account, suspend);
  const returning = await mintAt(store, guestKeys, 'returning-device', longAgo);
  t.is((await keys.models(used.key)).status, 200, 'a use that the store does not know yet');
  t.is((await keys.guest('returning-device')).status, 200);

  const worker = await stack.startWorker();
  await worker.process.line(({ msg }) => msg?.startsWith('devices that were no longer used') === true);
  t.is((await keys.account(unused.account)).status, 404);
  t.like(await keys.models(unused.key), { status: 401, body: { code: 'INVALID_KEY' } });
  t.is((await keys.models(used.key)).status, 200);
  t.is((await keys.models(returning.key)).status, 200);
  t.like(await keys.guest('suspended-device'), { status: 403, body: { code: 'FORBIDDEN' } });

  t.like(await keys.guest('unused-device'), { status: 200, body: { key: unused.key } });
  t.is((await keys.models(unused.key)).status, 200);
  t.is((await keys.infer(unused.key)).status, 200);
});

/** The parts of an ingress that find the caller of a key, with their caches. */
function createIngress({ redis, store, url }: Awaited<ReturnType<typeof openRedisDatabase>> & { store: Store }) {
  const callers = createCallers({
    store: store.accounts,
    sharedCallers: createSharedCallers({ redis, secretsInUse: url, log }),
    guestSecretsInUse: () => true,
    defaultPlan: () => 'free',
  });
  const admit = createAdmit(redis, { timeouts: () => oneMs, outboxLengthMax: 1 });
  const askLimits = createAskLimits({
    seed: () => Promise.reject(new Error('no month is requested')),
    reread: callers.reread,
  });
  const checkCaller = createCheckCaller({
    ...{ admit, askLimits },
    release: async () => 'released',
    keyUse: { note: () => {} },
  });
  let requests = 0;
  return async function whoIs(hash: string) {
    const credential = { hashes: [hash] };
    const caller = await callers.find(credential);
    return (await checkCaller.look({ requestId: `req_${requests++}`, address: '192.0.2.1', credential, caller }))
      .caller;
  };
}

test('an ingress rejects a removed device that it has cached, and does not confuse it with its successor', async (t) => {
  await using own = await openRedisDatabase();
  await using home = await createSqliteHome();
  await using store = await home.open();
  const guestKeys = createGuestKeys({ secrets: ['s'.repeat(32)], peppers: ['p'.repeat(32)] });
  const first = await mintAt(store, guestKeys, 'a-device', longAgo);
  const ingresses = [createIngress({ ...own, store }), createIngress({ ...own, store })] as const;
  for (const whoIs of ingresses) {
    t.like(await whoIs(first.hash), { account: first.account, keyId: `key_${longAgo.getTime()}` });
  }
  // As after an hour and 62 days: only the ingresses' caches know of a use.
  await own.redis.del(versionKey(first.account), fillKey(first.account));
  await createRemoveUnusedDevices({ redis: own.redis, store, daysKept: () => 62, log })(async () => true);
  t.is(await store.accounts.findAccount(first.account), undefined);
  const [one, other] = ingresses;
  await t.throwsAsync(one(first.hash), { message: /unknown, revoked/ });

  await own.redis.del(changesKey(first.account)); // its mark has expired
  const again = await mintAt(store, guestKeys, 'a-device', new Date());
  t.is(again.key, first.key);
  const version = String((await store.accounts.findAccount(again.account))?.version);
  await own.redis.set(versionKey(again.account), version);
  const found = await other(again.hash);
  t.not(found.keyId, `key_${longAgo.getTime()}`, 'the cached device has another version');
  t.is(String(found.version), version);
});
