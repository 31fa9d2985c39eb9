import { setTimeout as sleep } from 'node:timers/promises';
import type { ExecutionContext } from 'ava';
import test from 'ava';
import { mintGuestKey } from '../../../ingress/authentication/change-keys.ts';
import { changeSettings } from '../../../shared/account-changes/change-settings.ts';
import type { Redis } from '../../../shared/redis/connections.ts';
import { changesKey, countersKey, versionKey } from '../../../shared/redis/keys.ts';
import { storeUnavailable } from '../../../shared/store/documents.ts';
import type { Account } from '../../../shared/store/records/account.ts';
import type { AccountStore } from '../../../shared/store/records/account-store.ts';
import { defaultKeyOf } from '../../../shared/store/records/key.ts';
import {
  createRemoveUnusedDevices,
  isRemovable,
  type RemoveUnusedDevices,
  startDeviceRemoval,
} from '../../../workers/upkeep/remove-unused-devices.ts';
import { createSqliteHome } from '../../shared/store/sqlite-home.ts';
import { mint, newKey } from '../../shared/store/store-contract.ts';
import { usageRecord } from '../../shared/store/usage-records.ts';
import { openRedisDatabase } from '../../support/private-redis.ts';
import { recordedLog } from '../../support/recorded-log.ts';

const dayMs = 86_400_000;
const daysKept = 100;

type Wishes = { usedDaysAgo?: number; createdDaysAgo?: number };

async function open(t: ExecutionContext) {
  const own = await openRedisDatabase();
  t.teardown(() => own[Symbol.asyncDispose]());
  const home = await createSqliteHome();
  t.teardown(() => home[Symbol.asyncDispose]());
  const store = await home.open();
  t.teardown(() => store[Symbol.asyncDispose]());
  const { log, lines } = recordedLog();
  const daysAgo = (days: number) => new Date(Date.now() - days * dayMs);

  return {
    redis: own.redis,
    store,
    lines,
    daysAgo,
    async device(id: string, { createdDaysAgo = 300, usedDaysAgo }: Wishes = {}): Promise<string> {
      const account = `device:${id}`;
      const key = { ...newKey(), createdAt: daysAgo(createdDaysAgo) };
      const guest = { secret: 's', pepper: 'p' };
      await store.accounts.changeAccount(
        account,
        mintGuestKey({ account, plan: 'guest-device', key, guest }, () => true),
      );
      if (usedDaysAgo !== undefined)
        await store.accounts.recordKeyUse([{ account, keyId: key.id, at: daysAgo(usedDaysAgo) }]);
      return account;
    },
    /** Passes over all devices. Each continues where the one before ended. */
    passes(given: { accounts?: Partial<AccountStore>; now?: () => number } = {}): RemoveUnusedDevices {
      const parts = { ...store, accounts: { ...store.accounts, ...given.accounts } };
      const { now = Date.now } = given;
      return createRemoveUnusedDevices({ redis: own.redis, store: parts, daysKept: () => daysKept, log, now });
    },
    pass(given: { accounts?: Partial<AccountStore>; now?: () => number } = {}): Promise<boolean> {
      return this.passes(given)(async () => true);
    },
    async left(): Promise<string[]> {
      return (await store.accounts.listAccounts({ limit: 1_000 })).map(({ id }) => id);
    },
  };
}

test('only devices unused for the given days are removed, and no account', async (t) => {
  const side = await open(t);
  await side.device('created long ago', { createdDaysAgo: daysKept + 1 });
  await side.device('used long ago', { usedDaysAgo: daysKept + 1 });
  const kept = [
    await side.device('created recently', { createdDaysAgo: daysKept - 1 }),
    await side.device('used recently', { usedDaysAgo: daysKept - 1 }),
  ];
  const { account } = await mint(side.store, 'user:ann', { key: { ...newKey(), createdAt: side.daysAgo(900) } });
  await side.pass();
  t.deepEqual((await side.left()).sort(), [...kept, account.id].sort());
  t.like(side.lines, { length: 1, 0: { level: 'info', fields: { removed: 2 } } });
});

test('a device that an operator has changed stays', async (t) => {
  const side = await open(t);
  const device = await side.device('suspended');
  const suspend = changeSettings({ settings: { suspended: true }, by: 'user:olga', at: side.daysAgo(290) });
  await side.store.accounts.changeAccount(device, suspend);
  await side.pass();
  t.deepEqual(await side.left(), [device]);
});

test('a use that is only in Redis or in the usage keeps a device', async (t) => {
  const side = await open(t);
  const [seen, counted, charged] = [
    await side.device('seen by an ingress a moment ago'),
    await side.device('with requests in the last two months'),
    await side.device('with usage since then'),
  ];
  const month = (days: number) => ({ account: charged, admittedAt: side.daysAgo(days) });
  await side.redis.set(versionKey(seen), 1);
  await side.redis.hset(countersKey(counted), 'day', 1);
  await side.store.usage.recordUsage([usageRecord(month(daysKept - 1))]);
  await side.device('with usage before that');
  await side.store.usage.recordUsage([
    usageRecord({ ...month(daysKept + 40), account: 'device:with usage before that' }),
  ]);
  await side.pass();
  t.deepEqual((await side.left()).sort(), [seen, counted, charged].sort());
});

test('a device that is used or changed while it is being removed stays', async (t) => {
  const side = await open(t);
  const [used, changed] = [await side.device('used'), await side.device('changed')];
  const suspend = changeSettings({ settings: { suspended: true }, by: 'user:olga', at: new Date() });
  const removeAccount: AccountStore['removeAccount'] = async (account) => {
    const keyId = defaultKeyOf(await side.store.accounts.findAccount(account.id))?.id ?? '';
    if (account.id === used) await side.store.accounts.recordKeyUse([{ account: used, keyId, at: new Date() }]);
    else await side.store.accounts.changeAccount(changed, suspend);
    return side.store.accounts.removeAccount(account);
  };
  await side.pass({ accounts: { removeAccount } });
  t.deepEqual((await side.left()).sort(), [used, changed].sort());
  t.deepEqual(side.lines, []);
});

test('the next pass completes one that was interrupted', async (t) => {
  const side = await open(t);
  const device = await side.device('marked');
  const away = () => Promise.reject(storeUnavailable(new Error('gone')));
  await t.throwsAsync(side.pass({ accounts: { removeAccount: away } }), { message: /cannot be used/ });
  t.deepEqual(await side.left(), [device]);
  await side.pass();
  t.deepEqual(await side.left(), [device], 'while the mark exists, the removal may be in progress');
  await side.redis.del(changesKey(device));
  await side.pass();
  t.deepEqual(await side.left(), []);
});

test('all devices are checked, page by page, and a failing one does not block others', async (t) => {
  const side = await open(t);
  const ids = Array.from({ length: 230 }, (_, index) => `${index}`.padStart(3, '0'));
  for (const id of ids) await side.device(id);
  const findAccount: AccountStore['findAccount'] = (id) =>
    id === 'device:150' ? Promise.reject(new Error('it cannot be read')) : side.store.accounts.findAccount(id);
  const listed: (string | undefined)[] = [];
  const listAccounts: AccountStore['listAccounts'] = (page) => {
    listed.push(page.after);
    return side.store.accounts.listAccounts(page);
  };
  const pass = side.passes({ accounts: { findAccount, listAccounts } });
  t.false(await pass(async () => false));
  t.is((await side.left()).length, 130, 'it stops after a page if it may not continue');
  t.true(await pass(async () => true));
  t.deepEqual(listed, [undefined, 'device:099', 'device:199'], 'and continues there');
  t.deepEqual(await side.left(), ['device:150']);
  t.like(side.lines.at(-1), { level: 'warn', fields: { devices: 1 } });
});

test('nothing is removed while the clocks of Redis and of this machine are a day apart', async (t) => {
  const side = await open(t);
  const device = await side.device('old');
  await side.pass({ now: () => Date.now() + 2 * dayMs });
  t.deepEqual(await side.left(), [device]);
  t.like(side.lines, { length: 1, 0: { level: 'warn' } });
});

const since = new Date('2026-03-01T00:00:00Z');
const before = new Date(since.getTime() - 1);
const key = {
  id: 'key_1',
  hash: 'hash',
  display: 'svc_000000',
  name: 'default',
  isDefault: true,
  ...{ state: 'active' as const, createdAt: before },
};
const device: Account = {
  id: 'device:1',
  plan: 'guest-device',
  suspended: false,
  overageEnabled: false,
  topUpsMade: [],
  version: 1,
  createdAt: before,
  keys: [],
  changes: [{ at: before, by: 'device:1', keyMinted: 'key_1' }],
};
const used = (lastUsedAt: Date) => ({ keys: [{ ...key, lastUsedAt }] });
const operator = { at: before, by: 'user:olga' };

test('a device is removable if it was neither created nor used since then', (t) => {
  t.true(isRemovable(device, since));
  t.true(isRemovable({ ...device, ...used(before) }, since));
  t.true(isRemovable({ ...device, changes: [] }, since), 'one from before changes were recorded');
});

const kept: [title: string, more: Partial<Account>][] = [
  ['created since then', { createdAt: since }],
  ['used since then', used(since)],
  ['given a new key since then', { changes: [{ at: since, by: 'device:1', keyMinted: 'key_2' }] }],
  ['suspended', { suspended: true }],
  ['on another plan', { plan: 'pro' }],
  ['with overage', { overageEnabled: true }],
  ['with a top-up', { topUpsMade: [{ id: 'a', tokens: 1 }] }],
  [
    'suspended once, and resumed',
    {
      changes: [
        { ...operator, suspended: false },
        { ...operator, suspended: true },
      ],
    },
  ],
  ['no device', { id: 'user:1', changes: [] }],
];

for (const [title, more] of kept) {
  test(`a device is kept: ${title}`, (t) => t.false(isRemovable({ ...device, ...more }, since)));
}

type PassWishes = { isHeld?: () => boolean; fails?: () => boolean; ends?: () => boolean };

/** A worker that checks every few milliseconds. The clock stands still until the test moves it. */
function start({ isHeld = () => true, fails = () => false, ends = () => true }: PassWishes = {}) {
  const { log, lines } = recordedLog();
  let [now, looks, passes] = [0, 0, 0];
  let lookedAtUntil = 0;
  const keeping = startDeviceRemoval({
    redis: {
      exists: async () => Number(now < lookedAtUntil),
      set: (async (_key: string, _value: string, _unit: 'PX', lifeMs: number) => {
        lookedAtUntil = now + lifeMs;
        return 'OK';
      }) as Redis['set'], // the only form in which it is called
    },
    removeUnusedDevices: async () => {
      passes++;
      if (fails()) throw new Error('not now');
      return ends();
    },
    acquireLock: async () => {
      looks++;
      return isHeld();
    },
    log,
    everyMs: 2,
  });
  return {
    keeping,
    lines,
    passes: () => passes,
    pass(ms: number) {
      now += ms;
    },
    /** Waits until it has checked three more times. */
    async looksAgain(): Promise<void> {
      for (const before = looks; looks < before + 3; ) await sleep(2);
    },
  };
}

test('there is a pass at once, then once a day', async (t) => {
  const side = start();
  await using _keeping = side.keeping;
  await side.looksAgain();
  t.is(side.passes(), 1);
  side.pass(dayMs - 1);
  await side.looksAgain();
  t.is(side.passes(), 1);
  side.pass(1);
  await side.looksAgain();
  t.is(side.passes(), 2);
});

test('a worker without the lock makes no pass, until it gets the lock', async (t) => {
  let held = false;
  const side = start({ isHeld: () => held });
  await using _keeping = side.keeping;
  await side.looksAgain();
  t.is(side.passes(), 0);
  held = true;
  await side.looksAgain();
  t.is(side.passes(), 1);
});

test('a failed pass is retried, and after a success the next one is a day later', async (t) => {
  let failing = true;
  const side = start({ fails: () => failing });
  await using _keeping = side.keeping;
  await side.looksAgain();
  t.true(side.passes() >= 2);
  t.true(side.lines.every(({ level }) => level === 'warn'));
  failing = false;
  await side.looksAgain();
  const passes = side.passes();
  await side.looksAgain();
  t.is(side.passes(), passes);
});

test('a stopped pass continues at the next check', async (t) => {
  let ending = false;
  const side = start({ ends: () => ending });
  await using _keeping = side.keeping;
  await side.looksAgain();
  t.true(side.passes() >= 2);
  ending = true;
  await side.looksAgain();
  const passes = side.passes();
  await side.looksAgain();
  t.is(side.passes(), passes);
});

test('it checks no more after it was disposed of', async (t) => {
  const side = start();
  await side.looksAgain();
  await side.keeping[Symbol.asyncDispose]();
  const passes = side.passes();
  side.pass(dayMs);
  await sleep(20);
  t.is(side.passes(), passes);
});
