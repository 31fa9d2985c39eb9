import { randomBytes } from 'node:crypto';
import type { ExecutionContext } from 'ava';
import { ulid } from 'ulid';
import { ApiError, type ErrorCode } from '../../../shared/errors.ts';
import type { NewKey, Store } from '../../../shared/store/store.ts';

/** Where one test keeps its accounts: empty at first, reached by as many stores as it opens, thrown away at the end. */
export type StoreHome = AsyncDisposable & { open(): Promise<Store> };

type Contract = {
  test: (title: string, prove: (t: ExecutionContext) => Promise<void>) => void;
  createHome: () => Promise<StoreHome>;
  /** What the store says of itself. */
  description: RegExp;
};

/** What every store guarantees, whatever stands behind it. */
export function testStoreContract({ test, createHome, description }: Contract): void {
  const withStore = (title: string, prove: (t: ExecutionContext, store: Store, home: StoreHome) => Promise<void>) => {
    test(title, async (t) => {
      await using home = await createHome();
      await using store = await home.open();
      await prove(t, store, home);
    });
  };

  withStore('says which product and version it is, and answers a ping', provesItsIdentity(description));
  withStore('the first mint brings the account into being on its plan, with the key', createsAccount);
  withStore('a repeat mint keeps key, plan and version', keepsKey);
  withStore('of 100 mints at once for one account one is minted, and all return its key', mintsOnce);
  withStore('finds the account of a key by its hash, and nobody by another', findsKeyOwner);
  withStore('keeps accounts apart', keepsAccountsApart);
  withStore('refuses a hash that is another account’s, and leaves both accounts as they were', refusesTakenHash);
  withStore('takes names as they are, whatever characters they hold', takesOddNames);
  withStore('what was minted is found by whoever opens the store later', keepsForLater);
  withStore('every method says SERVICE_UNAVAILABLE once the store is closed', failsOnceClosed);
}

export function newKey(): NewKey {
  const hash = randomBytes(32).toString('hex');
  return { id: `key_${ulid()}`, hash, display: `svc_${hash.slice(0, 6)}`, createdAt: new Date() };
}

/** One call of every method, each of which must fail alike when the store cannot be used. */
export function callEveryMethod(store: Store): Promise<unknown>[] {
  return [
    store.describe(),
    store.ping(),
    store.mintDeveloperKey({ account: 'user:anyone', plan: 'free', key: newKey() }),
    store.findAccount('user:anyone'),
    store.findKeyOwner('any hash'),
  ];
}

/** The failure, which must be one for clients, with this code and a cause for the log. */
export async function failsWith(t: ExecutionContext, code: ErrorCode, call: Promise<unknown>): Promise<ApiError> {
  const error = await t.throwsAsync(call, { instanceOf: ApiError });
  t.is(error.code, code);
  t.true(error.cause instanceof Error);
  return error;
}

function provesItsIdentity(description: RegExp) {
  return async (t: ExecutionContext, store: Store) => {
    t.log(await store.describe());
    t.regex(await store.describe(), description);
    await t.notThrowsAsync(store.ping());
  };
}

async function createsAccount(t: ExecutionContext, store: Store): Promise<void> {
  const key = newKey();
  t.is(await store.findAccount('user:ann'), undefined);
  const { id, display, createdAt } = key;
  t.deepEqual(await store.mintDeveloperKey({ account: 'user:ann', plan: 'free', key }), {
    minted: true,
    account: { id: 'user:ann', plan: 'free', version: 1, key: { id, display, plan: 'free', createdAt } },
  });
  t.deepEqual(await store.findAccount('user:ann'), { plan: 'free', version: 1 });
}

async function keepsKey(t: ExecutionContext, store: Store): Promise<void> {
  const first = await store.mintDeveloperKey({ account: 'user:ann', plan: 'free', key: newKey() });
  const later = newKey();
  const second = await store.mintDeveloperKey({ account: 'user:ann', plan: 'pro', key: later });
  t.deepEqual(second, { minted: false, account: first.account });
  t.deepEqual(await store.findAccount('user:ann'), { plan: 'free', version: 1 });
  t.is(await store.findKeyOwner(later.hash), undefined);
}

async function mintsOnce(t: ExecutionContext, one: Store, home: StoreHome): Promise<void> {
  await using other = await home.open();
  const keys = Array.from({ length: 100 }, newKey);
  const outcomes = await Promise.all(
    keys.map((key, index) =>
      (index % 2 === 0 ? one : other).mintDeveloperKey({ account: 'user:ann', plan: 'free', key }),
    ),
  );

  t.is(outcomes.filter(({ minted }) => minted).length, 1);
  const winner = keys[outcomes.findIndex(({ minted }) => minted)];
  t.deepEqual(
    outcomes.map(({ account }) => [account.key.id, account.version]),
    keys.map(() => [winner?.id, 1]),
  );
  const owners = await Promise.all(keys.map(({ hash }) => one.findKeyOwner(hash)));
  t.deepEqual(
    owners.filter((owner) => owner !== undefined),
    [{ account: 'user:ann', keyId: winner?.id, plan: 'free', version: 1 }],
  );
}

async function findsKeyOwner(t: ExecutionContext, store: Store): Promise<void> {
  const key = newKey();
  await store.mintDeveloperKey({ account: 'user:ann', plan: 'free', key });
  t.deepEqual(await store.findKeyOwner(key.hash), { account: 'user:ann', keyId: key.id, plan: 'free', version: 1 });
  for (const other of [newKey().hash, key.hash.slice(0, -1), key.hash.toUpperCase(), key.id, '', '*', '$ne']) {
    t.is(await store.findKeyOwner(other), undefined, other);
  }
}

async function keepsAccountsApart(t: ExecutionContext, store: Store): Promise<void> {
  // The last two look alike: é as one character, and as e with an accent.
  const accounts = ['user:ann', 'user:Ann', 'user:ann ', 'user:an', 'device:ann', 'user:é', 'user:e\u0301'];
  const keys = accounts.map(newKey);
  for (const [index, account] of accounts.entries()) {
    const { minted } = await store.mintDeveloperKey({ account, plan: `plan ${index}`, key: keys[index] ?? newKey() });
    t.true(minted, account);
  }
  for (const [index, account] of accounts.entries()) {
    const owner = await store.findKeyOwner(keys[index]?.hash ?? '');
    t.deepEqual(owner, { account, keyId: keys[index]?.id ?? '', plan: `plan ${index}`, version: 1 });
    t.deepEqual(await store.findAccount(account), { plan: `plan ${index}`, version: 1 });
  }
}

async function refusesTakenHash(t: ExecutionContext, store: Store): Promise<void> {
  const key = newKey();
  await store.mintDeveloperKey({ account: 'user:ann', plan: 'free', key });
  const again = { ...newKey(), hash: key.hash };
  const error = await failsWith(
    t,
    'INTERNAL_ERROR',
    store.mintDeveloperKey({ account: 'user:bob', plan: 'free', key: again }),
  );
  t.false(error.message.includes(key.hash) || error.message.includes('user:'));

  t.is(await store.findAccount('user:bob'), undefined);
  t.is((await store.findKeyOwner(key.hash))?.account, 'user:ann');
  const { minted } = await store.mintDeveloperKey({ account: 'user:bob', plan: 'free', key: newKey() });
  t.true(minted);

  const repeat = await store.mintDeveloperKey({ account: 'user:bob', plan: 'free', key: again });
  t.false(repeat.minted, 'an account with a key keeps it, whichever other key it is offered');
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
    const key = newKey();
    const minted = await store.mintDeveloperKey({ account: `user:${name}`, plan: name, key });
    t.is(minted.account.id, `user:${name}`);
    t.is(minted.account.key.plan, name);
    t.deepEqual(await store.findKeyOwner(key.hash), { account: `user:${name}`, keyId: key.id, plan: name, version: 1 });
    t.deepEqual(await store.findAccount(`user:${name}`), { plan: name, version: 1 });
  }
}

async function keepsForLater(t: ExecutionContext, store: Store, home: StoreHome): Promise<void> {
  const key = newKey();
  const { account } = await store.mintDeveloperKey({ account: 'user:ann', plan: 'free', key });
  await using beside = await home.open();
  t.is((await beside.findKeyOwner(key.hash))?.keyId, key.id);

  await store[Symbol.asyncDispose]();
  await beside[Symbol.asyncDispose]();
  await using later = await home.open();
  t.is((await later.findKeyOwner(key.hash))?.keyId, key.id);
  const repeat = await later.mintDeveloperKey({ account: 'user:ann', plan: 'free', key: newKey() });
  t.deepEqual(repeat, { minted: false, account });
}

async function failsOnceClosed(t: ExecutionContext, store: Store, home: StoreHome): Promise<void> {
  await using other = await home.open();
  await store.ping();
  await store[Symbol.asyncDispose]();
  for (const call of callEveryMethod(store)) await failsWith(t, 'SERVICE_UNAVAILABLE', call);
  await t.notThrowsAsync(async () => store[Symbol.asyncDispose](), 'closing twice is closing once');
  await t.notThrowsAsync(other.ping(), 'another store of the same home goes on');
}
