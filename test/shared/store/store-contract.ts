import { randomBytes } from 'node:crypto';
import type { ExecutionContext } from 'ava';
import { ulid } from 'ulid';
import { z } from 'zod';
import { createKey, mintGuestKey, mintKey, rotateKey } from '../../../ingress/authentication/change-keys.ts';
import { ApiError, type ErrorCode } from '../../../shared/errors.ts';
import type { Account } from '../../../shared/store/records/account.ts';
import { defaultKeyOf, isLive, type Key, type LiveKey, type NewKey } from '../../../shared/store/records/key.ts';
import type { Store } from '../../../shared/store/records/store.ts';
import { batchOf, fileOf, resultOf, retryOf } from './batch-records.ts';
import { inChunks } from './file-bytes.ts';
import { topUpCodeOf } from './top-up-code-records.ts';
import { usageRecord } from './usage-records.ts';
import { deliveryOf, scheduleOf, webhooksOf } from './webhook-records.ts';

/** What the clock of every opened store says, so that the hours of the usage records of these tests are kept. */
export const storeTime = Date.parse('2026-12-31T23:59:59Z');

/** The data of one test: empty at first, opened by any number of stores, deleted at the end. */
export type StoreHome = AsyncDisposable & {
  open(): Promise<Store>;
  /** The address with which another process opens the same data. */
  url: string;
  /** Removes all sums and details of usage, as if every process that inserted records died before it summed them. */
  removeSums(): Promise<unknown>;
  /** Makes every sum of usage wrong. */
  spoilSums(): Promise<unknown>;
  /** Removes sums and keeps details, as if every process died between the two. */
  removeTotals(): Promise<unknown>;
  /** Makes details say that they contain all records up to this entry, as a repair does that dies before the sum. */
  moveDetails(lastEntry: string): Promise<unknown>;
  /** Makes every detail of usage wrong. */
  spoilDetails(): Promise<unknown>;
  /** The number of pieces of all files, including unfinished ones. */
  countPieces(): Promise<number>;
};

export type Contract = {
  test: (title: string, prove: (t: ExecutionContext) => Promise<void>) => void;
  createHome: () => Promise<StoreHome>;
};

type Proof = (t: ExecutionContext, store: Store, home: StoreHome) => Promise<void>;

/** The guarantees of every store, for any database. */
export function testStoreContract(contract: Contract & { description: RegExp }): void {
  const prove = provesOnStore(contract);
  prove('reports its product and version, and answers a ping', provesItsIdentity(contract.description));
  prove('an account is created by its first change, and found unchanged', createsAccount);
  prove(
    'finds the account of a key by its hash, at any position among several, and none by another hash',
    findsKeyOwner,
  );
  prove('finds the device of a guest key, with the secrets that the key was made with', findsGuest);
  prove('does not mix up accounts', keepsAccountsApart);
  prove('rejects the hash of another account, and does not change either account', refusesTakenHash);
  prove('stores names unchanged, with any characters', takesOddNames);
  prove('stores only the fields of an account, and never the full key', keepsNothingElse);
  prove('a change is found by a store that is opened later', keepsForLater);
  prove('every method fails with SERVICE_UNAVAILABLE after the store is closed', failsOnceClosed);
}

/** Runs a proof on a new store, and lets it open more stores of the same data. */
export function provesOnStore({ test, createHome }: Contract): (title: string, prove: Proof) => void {
  return (title, prove) =>
    test(title, async (t) => {
      await using home = await createHome();
      await using store = await home.open();
      await prove(t, store, home);
    });
}

export function newKey(): NewKey {
  const hash = randomBytes(32).toString('hex');
  return { id: `key_${ulid()}`, hash, display: `svc_${hash.slice(0, 6)}`, createdAt: new Date() };
}

/** The default key that was minted with these fields. */
export function defaultKeyFrom(key: NewKey): LiveKey {
  return { ...key, name: 'default', isDefault: true, state: 'active' };
}

/** The keys of an account that have ended, latest first. */
export function endedKeysOf({ keys }: Pick<Account, 'keys'>): Key[] {
  return keys.filter((key) => !isLive(key)).toReversed();
}

export function mint(store: Store, account: string, { plan = 'free', key = newKey() } = {}) {
  return store.accounts.changeAccount(account, mintKey({ account, plan, key }));
}

const noContents = { models: [], backends: [], plans: [], others: [] };

/** Calls every method once. All calls must fail alike if the store cannot be used. */
export function callEveryMethod(store: Store): Promise<unknown>[] {
  return [
    store.describe(),
    store.ping(),
    store.listMissingIndexes(),
    store.accounts.findAccount('user:anyone'),
    store.accounts.listAccounts({ limit: 1 }),
    store.accounts.listRemovals({ after: '', limit: 1 }),
    store.accounts.findKeyOwner(['any hash']),
    store.accounts.findAccountsByKey({ id: 'key_1', limit: 1 }),
    store.accounts.keepName({ id: 'user:anyone', name: 'Any One' }),
    store.accounts.findNames(['user:anyone']),
    store.accounts.findNamed('any', 1),
    store.audit.listAudit({ limit: 1 }),
    store.audit.listAudit({ account: 'user:anyone', limit: 1 }),
    store.audit.copyAudit('user:anyone'),
    store.audit.copyAuditAfter('', 1),
    store.audit.copyCodeAudit('tuc_any'),
    store.audit.copyCodeAuditAfter('', 1),
    store.audit.notePlanFile({ generation: 'any', contents: noContents, at: new Date() }, undefined),
    mint(store, 'user:anyone'),
    store.accounts.removeAccount({ id: 'user:anyone', version: 1, keys: [] }),
    store.accounts.recordKeyUse([{ account: 'user:anyone', keyId: 'key_1', at: new Date() }]),
    store.usage.recordUsage([usageRecord()]),
    store.usage.findUsageSum('user:anyone', '2026-12'),
    store.usage.findUsageRecord('req_1'),
    store.usage.findUsageByAnswer('user:anyone', 'chatcmpl-1'),
    store.usage.listUsageRecords('user:anyone', { limit: 1 }),
    store.usage.recomputeUsage('user:anyone', '2026-12', ''),
    store.usage.repairUsage('user:anyone', '2026-12', ''),
    store.usage.listUsageMonths({ limit: 1 }),
    store.usage.findUsageDays('user:anyone', '2026-12'),
    Array.fromAsync(store.usage.details.read({ account: 'user:anyone', start: '2026-12-01', end: '2026-12-31' })),
    Array.fromAsync(store.usage.details.readAll({ start: '2026-12-01', end: '2026-12-31' })),
    Array.fromAsync(store.usage.readRefusals({ account: 'user:anyone', start: '2026-12-01T00', end: '2026-12-31T23' })),
    store.usage.sumHour('2026-12-01T00', []),
    store.usage.removeOldHours(storeTime),
    store.usage.removeUsageBefore('2026-12'),
    store.topUpCodes.insertCodes([topUpCodeOf()]),
    store.topUpCodes.findCode('any hash'),
    store.topUpCodes.changeCode('tuc_1', () => ({ result: undefined })),
    store.topUpCodes.listCodes({ now: new Date(), limit: 1 }),
    store.topUpCodes.listClaimedCodes({ before: new Date(), after: '', limit: 1 }),
    ...callEveryBatchMethod(store),
    ...callEveryWebhookMethod(store),
  ];
}

function callEveryWebhookMethod({ webhooks }: Store): Promise<unknown>[] {
  const [delivery, schedule] = [deliveryOf(), scheduleOf('wh_any')];
  return [
    webhooks.findWebhooks('user:anyone'),
    webhooks.findWebhooksOf(['user:anyone']),
    webhooks.listWebhooks({ after: '', limit: 1 }),
    webhooks.changeWebhooks('user:anyone', () => ({ result: undefined, next: webhooksOf('user:anyone') })),
    webhooks.insertDeliveries([delivery]),
    webhooks.findDelivery(delivery.id),
    webhooks.listDeliveries('wh_any', { limit: 1 }),
    webhooks.listWaiting('wh_any', 1),
    webhooks.countWaiting('wh_any', 1),
    webhooks.changeDelivery(delivery.id, () => ({ result: undefined })),
    webhooks.removeDeliveries('wh_any', 1),
    webhooks.removeDeliveriesBefore(new Date(), 1),
    webhooks.findSchedule('wh_any'),
    webhooks.changeSchedule('wh_any', () => ({ result: undefined, next: schedule })),
    webhooks.removeSchedule('wh_any'),
    webhooks.listDueSchedules(new Date(), { limit: 1 }),
  ];
}

function callEveryBatchMethod({ batches, files }: Store): Promise<unknown>[] {
  const [file, batch] = [fileOf(), batchOf()];
  return [
    batches.insertFile(file),
    batches.findFile(file.id),
    batches.listFiles('user:anyone', { limit: 1 }),
    batches.changeFile(file.id, 'ready', { state: 'deleting' }),
    batches.removeFile(file.id),
    batches.countFiles('user:anyone'),
    batches.listFilesToRemove(new Date(), new Date(), 1),
    batches.insertBatch(batch),
    batches.insertBatch(batch, 'a claim'),
    batches.findBatch(batch.id),
    batches.findClaimedBatch('a claim'),
    batches.listBatches('user:anyone', { limit: 1 }),
    batches.changeBatch(batch.id, () => ({ result: undefined })),
    batches.removeBatch(batch.id),
    batches.listOpenAccounts(),
    batches.listOpenBatches(['user:anyone']),
    batches.isInputOfUnfinished(file.id),
    batches.findRoom('user:anyone'),
    batches.changeRoom('user:anyone', () => ({ result: undefined })),
    batches.takeBytes('user:anyone', { batch: batch.id, bytes: 1, bytesMax: 1 }),
    batches.describeBatches(),
    batches.insertResults([resultOf(batch.id, 1)]),
    batches.findLine(batch.id, 1),
    batches.listResults(batch.id, { after: 0, limit: 1 }),
    batches.countResults(batch.id),
    batches.listEndedLines(batch.id, 1),
    batches.recordRetry(retryOf(batch.id, 1)),
    batches.listRetries(batch.id),
    batches.removeResults(batch.id, 1),
    batches.listEndedBatches(1),
    batches.forgetEndedBatches([batch.id]),
    files.write(file.id, inChunks(Buffer.from('bytes'), [2])),
    files.read(file.id, 0, 1),
    files.remove(file.id),
  ];
}

/** Returns the failure, which must be an `ApiError` with this code and a cause for the log. */
export async function failsWith(t: ExecutionContext, code: ErrorCode, call: Promise<unknown>): Promise<ApiError> {
  const error = await t.throwsAsync(call, { instanceOf: ApiError });
  t.is(error.code, code);
  t.true(error.cause instanceof Error);
  return error;
}

function provesItsIdentity(description: RegExp): Proof {
  return async (t, store) => {
    t.log(await store.describe());
    t.regex(await store.describe(), description);
    await t.notThrowsAsync(store.ping());
  };
}

async function createsAccount(t: ExecutionContext, store: Store): Promise<void> {
  const key = newKey();
  t.is(await store.accounts.findAccount('user:ann'), undefined);
  const { minted, account } = await mint(store, 'user:ann', { key });
  t.true(minted);
  t.deepEqual(await store.accounts.findAccount('user:ann'), account);
  t.deepEqual(account, {
    id: 'user:ann',
    plan: 'free',
    suspended: false,
    overageEnabled: false,
    topUpsMade: [],
    version: 1,
    createdAt: key.createdAt,
    keys: [defaultKeyFrom(key)],
    keysCreated: { day: key.createdAt.toISOString().slice(0, 10), count: 1 },
    changes: [{ at: key.createdAt, by: 'user:ann', keyMinted: key.id }],
  });
}

async function findsKeyOwner(t: ExecutionContext, store: Store): Promise<void> {
  const key = newKey();
  await mint(store, 'user:ann', { key });
  await mint(store, 'user:bob');
  const owner = {
    account: 'user:ann',
    keyId: key.id,
    plan: 'free',
    suspended: false,
    overageEnabled: false,
    version: 1,
  };
  t.deepEqual(await store.accounts.findKeyOwner([key.hash]), owner);
  t.deepEqual(await store.accounts.findKeyOwner([newKey().hash, key.hash]), owner);
  t.deepEqual(await store.accounts.findKeyOwner([key.hash, newKey().hash, newKey().hash]), owner);

  const others = [newKey().hash, key.hash.slice(0, -1), key.hash.toUpperCase(), key.id, '', '*', '$ne', '"', 'null'];
  for (const other of others) t.is(await store.accounts.findKeyOwner([other]), undefined, other);
  t.is(await store.accounts.findKeyOwner(others), undefined);
  t.is(await store.accounts.findKeyOwner([]), undefined);
}

async function findsGuest(t: ExecutionContext, store: Store): Promise<void> {
  const [key, guest] = [newKey(), { secret: 'the first', pepper: 'the second' }];
  const device = { account: 'device:1', plan: 'guest-device', key, guest };
  const made = await store.accounts.changeAccount(
    'device:1',
    mintGuestKey(device, () => true),
  );
  t.deepEqual(await store.accounts.findAccount('device:1'), made);
  const stored = { plan: 'guest-device', suspended: false, overageEnabled: false, version: made.version };
  t.deepEqual(await store.accounts.findKeyOwner([key.hash]), { account: 'device:1', keyId: key.id, ...stored, guest });
}

async function keepsAccountsApart(t: ExecutionContext, store: Store): Promise<void> {
  // The last two look alike: é as one character, and as e with an accent.
  const names = ['user:ann', 'user:Ann', 'user:ann ', 'user:an', 'device:ann', 'user:é', 'user:e\u0301'];
  const made = new Map<string, Account>();
  for (const [index, name] of names.entries()) {
    const { minted, account } = await mint(store, name, { plan: `plan ${index}` });
    t.true(minted, name);
    made.set(name, account);
  }
  for (const [name, account] of made) {
    t.deepEqual(await store.accounts.findAccount(name), account);
    t.is((await store.accounts.findKeyOwner([defaultKeyOf(account)?.hash ?? '']))?.account, name);
  }
}

async function refusesTakenHash(t: ExecutionContext, store: Store): Promise<void> {
  const key = newKey();
  const { account: ann } = await mint(store, 'user:ann', { key });
  const again = { ...newKey(), hash: key.hash };
  const error = await failsWith(t, 'INTERNAL_ERROR', mint(store, 'user:bob', { key: again }));
  t.false(error.message.includes(key.hash) || error.message.includes('user:'));
  t.is(await store.accounts.findAccount('user:bob'), undefined);

  const { account: bob } = await mint(store, 'user:bob');
  const named = { hashes: [defaultKeyOf(bob)?.hash ?? ''] };
  await failsWith(t, 'INTERNAL_ERROR', store.accounts.changeAccount('user:bob', rotateKey({ named, key: again })));
  const create = createKey({ account: 'user:bob', plan: 'free', key: again, fields: { name: 'a program' } });
  await failsWith(t, 'INTERNAL_ERROR', store.accounts.changeAccount('user:bob', create));
  t.deepEqual(await store.accounts.findAccount('user:bob'), bob);
  t.deepEqual(await store.accounts.findAccount('user:ann'), ann);
  t.is((await store.accounts.findKeyOwner([key.hash]))?.account, 'user:ann');

  const repeat = await mint(store, 'user:bob', { key: again });
  t.false(repeat.minted, 'an account with a key keeps it when it is offered another one');
}

async function takesOddNames(t: ExecutionContext, store: Store): Promise<void> {
  const names = [
    'a.b$c%',
    '$set',
    '__proto__',
    "'; DROP TABLE accounts; --",
    '  ',
    '名前 🗝️',
    '\\"{}',
    'a\tb\n',
    'x'.repeat(255), // the longest `sub` (OpenID Connect Core 2)
  ];
  for (const name of names) {
    const { account } = await mint(store, `user:${name}`, { plan: name });
    t.like(account, { id: `user:${name}`, plan: name });
    t.deepEqual(await store.accounts.findAccount(`user:${name}`), account);
    t.like(await store.accounts.findKeyOwner([defaultKeyOf(account)?.hash ?? '']), {
      account: `user:${name}`,
      plan: name,
    });
    await store.accounts.recordKeyUse([
      { account: `user:${name}`, keyId: defaultKeyOf(account)?.id ?? '', at: new Date(1) },
    ]);
    t.deepEqual(defaultKeyOf(await store.accounts.findAccount(`user:${name}`))?.lastUsedAt, new Date(1));
  }
}

async function keepsNothingElse(t: ExecutionContext, store: Store): Promise<void> {
  const key = { ...newKey(), full: 'svc_the key itself' };
  await mint(store, 'user:ann', { key });
  t.deepEqual(Object.keys(defaultKeyOf(await store.accounts.findAccount('user:ann')) ?? {}).sort(), [
    'createdAt',
    'display',
    'hash',
    'id',
    'isDefault',
    'name',
    'state',
  ]);
  const unreadable = { ...newKey(), display: undefined as unknown as string };
  await t.throwsAsync(mint(store, 'user:bob', { key: unreadable }), { instanceOf: z.ZodError });
  t.is(await store.accounts.findAccount('user:bob'), undefined);
}

async function keepsForLater(t: ExecutionContext, store: Store, home: StoreHome): Promise<void> {
  const { account } = await mint(store, 'user:ann');
  await using beside = await home.open();
  t.deepEqual(await beside.accounts.findAccount('user:ann'), account);

  await store[Symbol.asyncDispose]();
  await beside[Symbol.asyncDispose]();
  await using later = await home.open();
  t.is((await later.accounts.findKeyOwner([defaultKeyOf(account)?.hash ?? '']))?.keyId, defaultKeyOf(account)?.id);
  t.deepEqual(await mint(later, 'user:ann'), { minted: false, account });
}

async function failsOnceClosed(t: ExecutionContext, store: Store, home: StoreHome): Promise<void> {
  await using other = await home.open();
  await store.ping();
  await store[Symbol.asyncDispose]();
  await Promise.all(callEveryMethod(store).map((call) => failsWith(t, 'SERVICE_UNAVAILABLE', call)));
  await t.notThrowsAsync(async () => store[Symbol.asyncDispose](), 'closing twice has no further effect');
  await t.notThrowsAsync(other.ping(), 'another store of the same data continues');
}
