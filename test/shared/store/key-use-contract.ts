import type { ExecutionContext } from 'ava';
import { createKey, revokeKey, rotateKey } from '../../../ingress/authentication/change-keys.ts';
import { changeSettings } from '../../../shared/account-changes/change-settings.ts';
import type { Account } from '../../../shared/store/records/account.ts';
import { defaultKeyOf, type Key } from '../../../shared/store/records/key.ts';
import type { Store } from '../../../shared/store/records/store.ts';
import { type Contract, endedKeysOf, mint, newKey, provesOnStore, type StoreHome } from './store-contract.ts';

/** The guarantees of every store for the last use of a key. */
export function testKeyUseContract(contract: Contract): void {
  const prove = provesOnStore(contract);
  prove('the last use of a key is stored, and does not change the version', notesUse);
  prove('the last use never goes back in time, in any order of notes', neverGoesBack);
  prove('the use of a key that is not active is ignored', leavesOutOtherKeys);
  prove('the use of a new key replaces that of the old one, which the ended key keeps', passesToNewKey);
  prove('the last use of a further key never goes back, and stays with it when it has ended', notesFurtherKeys);
  prove('a note during a change of the account is kept, and so is the change', survivesChange);
  prove('an empty list of notes is accepted', takesNone);
  prove('a thousand notes are stored at once', takesThousand);
}

async function notesUse(t: ExecutionContext, store: Store): Promise<void> {
  const { account } = await mint(store, 'user:ann');
  await store.accounts.recordKeyUse([use(account, 5)]);
  const keys = account.keys.map((key) => ({ ...key, lastUsedAt: new Date(5) }));
  t.deepEqual(await store.accounts.findAccount('user:ann'), { ...account, keys });
  t.is((await store.accounts.findKeyOwner([defaultKeyOf(account)?.hash ?? '']))?.version, 1);
}

async function neverGoesBack(t: ExecutionContext, store: Store): Promise<void> {
  const { account } = await mint(store, 'user:ann');
  const lastUsedAt = async () => defaultKeyOf(await store.accounts.findAccount('user:ann'))?.lastUsedAt?.getTime();
  await store.accounts.recordKeyUse([use(account, 5)]);
  await store.accounts.recordKeyUse([use(account, 4)]);
  t.is(await lastUsedAt(), 5);
  await store.accounts.recordKeyUse([use(account, 6)]);
  t.is(await lastUsedAt(), 6);
  await store.accounts.recordKeyUse([use(account, 7), use(account, 9), use(account, 8)]);
  t.is(await lastUsedAt(), 9);
  await Promise.all([13, 11, 17, 12].map((at) => store.accounts.recordKeyUse([use(account, at)])));
  t.is(await lastUsedAt(), 17);
}

async function leavesOutOtherKeys(t: ExecutionContext, store: Store): Promise<void> {
  const { account: first } = await mint(store, 'user:ann');
  await rotate(store, first);
  const { account: revoked } = await mint(store, 'user:bob');
  await store.accounts.changeAccount('user:bob', revokeKey({ named: named(revoked), at: new Date() }));
  const before = await Promise.all(['user:ann', 'user:bob'].map((id) => store.accounts.findAccount(id)));

  const elsewhere = { ...use(first, 5), account: 'user:bob' };
  await store.accounts.recordKeyUse([
    use(first, 5),
    use(revoked, 5),
    elsewhere,
    { ...use(first, 5), account: 'user:missing' },
  ]);
  t.deepEqual(await Promise.all(['user:ann', 'user:bob'].map((id) => store.accounts.findAccount(id))), before);
  t.is(await store.accounts.findAccount('user:missing'), undefined);
}

async function passesToNewKey(t: ExecutionContext, store: Store): Promise<void> {
  const { account: first } = await mint(store, 'user:ann');
  await store.accounts.recordKeyUse([use(first, 50)]);
  const second = await rotate(store, first);
  t.deepEqual(endedKeysOf(second)[0]?.lastUsedAt, new Date(50));

  // Earlier by the clock of another machine, but of the active key.
  await store.accounts.recordKeyUse([use(second, 40)]);
  const after = await store.accounts.findAccount('user:ann');
  const [active, ...ended] = second.keys;
  t.deepEqual(after, { ...second, keys: [{ ...active, lastUsedAt: new Date(40) } as Key, ...ended] });
  await store.accounts.recordKeyUse([use(first, 60)]);
  t.deepEqual(await store.accounts.findAccount('user:ann'), after);
}

async function notesFurtherKeys(t: ExecutionContext, store: Store): Promise<void> {
  const key = newKey();
  const create = createKey({ account: 'user:ann', plan: 'free', key, fields: { name: 'a program' } });
  await store.accounts.changeAccount('user:ann', create);
  const useAt = (at: number) => ({ account: 'user:ann', keyId: key.id, at: new Date(at) });
  const lastUsedAt = async () => (await store.accounts.findAccount('user:ann'))?.keys[0]?.lastUsedAt;
  t.is(await lastUsedAt(), undefined);
  await store.accounts.recordKeyUse([useAt(5)]);
  await store.accounts.recordKeyUse([useAt(4)]);
  t.deepEqual(await lastUsedAt(), new Date(5));
  await store.accounts.recordKeyUse([useAt(7), useAt(9), useAt(8)]);
  t.deepEqual(await lastUsedAt(), new Date(9));
  await store.accounts.changeAccount('user:ann', revokeKey({ named: { id: key.id }, at: new Date() }));
  await store.accounts.recordKeyUse([useAt(10)]);
  const after = await store.accounts.findAccount('user:ann');
  t.like(after, { version: 2, keys: { length: 1, 0: { state: 'revoked', hash: undefined, lastUsedAt: new Date(9) } } });
}

async function survivesChange(t: ExecutionContext, one: Store, home: StoreHome): Promise<void> {
  await using other = await home.open();
  const { account } = await mint(one, 'user:ann');
  await other.accounts.recordKeyUse([use(account, 5)]);
  // Decided on the account as it was before the note.
  const change = (plan: string) => changeSettings({ settings: { plan }, at: new Date(), by: 'user:operator' });
  await one.accounts.changeAccount('user:ann', () => change('pro')(account));
  t.like(await one.accounts.findAccount('user:ann'), {
    plan: 'pro',
    version: 2,
    keys: { 0: { lastUsedAt: new Date(5) } },
  });

  for (let round = 1; round <= 30; round += 1) {
    const plan = `plan ${round}`;
    await Promise.all([
      one.accounts.changeAccount('user:ann', change(plan)),
      other.accounts.recordKeyUse([use(account, 5 + round)]),
    ]);
    t.like(await one.accounts.findAccount('user:ann'), {
      plan,
      version: 2 + round,
      keys: { 0: { lastUsedAt: new Date(5 + round) } },
    });
  }
}

async function takesNone(t: ExecutionContext, store: Store): Promise<void> {
  await t.notThrowsAsync(store.accounts.recordKeyUse([]));
}

async function takesThousand(t: ExecutionContext, store: Store): Promise<void> {
  const names = Array.from({ length: 50 }, (_, index) => `user:${index}`);
  const made = await Promise.all(names.map((name) => mint(store, name)));
  const uses = Array.from({ length: 20 }, (_, at) => made.map(({ account }) => use(account, at)));
  await store.accounts.recordKeyUse(uses.flat());
  const after = await Promise.all(names.map((name) => store.accounts.findAccount(name)));
  for (const account of after) t.deepEqual(defaultKeyOf(account)?.lastUsedAt, new Date(19));
}

async function rotate(store: Store, account: Account): Promise<Account> {
  const rotated = await store.accounts.changeAccount(account.id, rotateKey({ named: named(account), key: newKey() }));
  if (rotated === undefined) throw new Error('the key was active');
  return rotated;
}

function named(account: Account) {
  return { hashes: [defaultKeyOf(account)?.hash ?? ''] };
}

function use(account: Account, atMs: number) {
  return { account: account.id, keyId: defaultKeyOf(account)?.id ?? '', at: new Date(atMs) };
}
