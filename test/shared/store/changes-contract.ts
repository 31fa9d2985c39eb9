import type { ExecutionContext } from 'ava';
import { type NamedKey, revokeKey, rotateKey } from '../../../ingress/authentication/change-keys.ts';
import { changeSettings } from '../../../shared/account-changes/change-settings.ts';
import type { Account } from '../../../shared/store/records/account.ts';
import { defaultKeyOf } from '../../../shared/store/records/key.ts';
import type { Store } from '../../../shared/store/records/store.ts';
import { type Contract, endedKeysOf, mint, newKey, provesOnStore } from './store-contract.ts';

/** The guarantees of every store for changes: the life cycle of keys, and how a change is decided. */
export function testChangesContract(contract: Contract): void {
  const prove = provesOnStore(contract);
  prove('none, mint: the key is active', mints);
  prove('active, mint: key, plan and version do not change', keepsKey);
  prove('active, rotate: the old key stops working, a new one works', rotates);
  prove('active, revoke: the key stops working, and there is no key until the next mint', revokes);
  prove('a key that is not active is neither rotated nor revoked, and nothing changes', refusesOtherKeys);
  prove('overage and top-ups are kept, and returned with the owner of a key', keepsAllowance);
  prove('a failed decision fails the change with its own error, and changes nothing', passesFailureOn);
  prove('a decision without a change writes nothing', writesNothing);
}

async function mints(t: ExecutionContext, store: Store): Promise<void> {
  const key = newKey();
  const { minted, account } = await mint(store, 'user:ann', { key });
  t.true(minted);
  t.is((await keyOwner(store, account))?.keyId, key.id);
}

async function keepsKey(t: ExecutionContext, store: Store): Promise<void> {
  const first = await mint(store, 'user:ann');
  const later = newKey();
  t.deepEqual(await mint(store, 'user:ann', { plan: 'pro', key: later }), { minted: false, account: first.account });
  t.deepEqual(await store.accounts.findAccount('user:ann'), first.account);
  t.is(await store.accounts.findKeyOwner([later.hash]), undefined);
}

async function rotates(t: ExecutionContext, store: Store): Promise<void> {
  const { account } = await mint(store, 'user:ann');
  await setPlan(store, 'pro');
  const key = newKey();
  const rotated = await store.accounts.changeAccount('user:ann', rotateKey({ named: namedBy(account), key }));
  t.deepEqual(await store.accounts.findAccount('user:ann'), rotated);
  t.like(rotated, { version: 3, plan: 'pro', keys: { 0: { id: key.id, state: 'active' } } });
  t.like(endedKeysOf(rotated ?? account), {
    length: 1,
    0: { id: defaultKeyOf(account)?.id, state: 'rotated', plan: 'pro' },
  });
  t.is(await keyOwner(store, account), undefined);
  t.like(await store.accounts.findKeyOwner([key.hash]), {
    account: 'user:ann',
    keyId: key.id,
    version: 3,
    plan: 'pro',
  });
}

async function revokes(t: ExecutionContext, store: Store): Promise<void> {
  const { account } = await mint(store, 'user:ann');
  const revoked = await store.accounts.changeAccount(
    'user:ann',
    revokeKey({ named: namedBy(account), at: new Date(7) }),
  );
  const ended = { id: defaultKeyOf(account)?.id, state: 'revoked', endedAt: new Date(7), hash: undefined };
  t.like(revoked, { version: 2, keys: { length: 1, 0: ended } });
  t.is(await keyOwner(store, account), undefined);
  t.deepEqual(await store.accounts.findAccount('user:ann'), revoked);
  await mint(store, 'user:bob');
  await store.accounts.changeAccount(
    'user:bob',
    revokeKey({ named: namedBy(await findAccount(store, 'user:bob')), at: new Date() }),
  );

  const again = await mint(store, 'user:ann', { plan: 'pro' });
  t.true(again.minted);
  t.not(defaultKeyOf(again.account)?.id, defaultKeyOf(account)?.id);
  t.like(await keyOwner(store, again.account), { account: 'user:ann', version: 3, plan: 'free' });
}

async function refusesOtherKeys(t: ExecutionContext, store: Store): Promise<void> {
  const { account: other } = await mint(store, 'user:bob');
  const { account: first } = await mint(store, 'user:ann');
  const revoking = revokeKey({ named: namedBy(first), at: new Date() });
  await store.accounts.changeAccount('user:ann', revoking);
  const { account: second } = await mint(store, 'user:ann');
  await store.accounts.changeAccount('user:ann', rotateKey({ named: namedBy(second), key: newKey() }));

  const before = await findAccount(store, 'user:ann');
  const unknown: NamedKey[] = [{ hashes: [newKey().hash] }, { display: 'svc_unknow' }, { hashes: [] }];
  const ended = [first, second, other].flatMap((account) => [
    namedBy(account),
    { display: defaultKeyOf(account)?.display ?? '' },
  ]);
  for (const named of [...unknown, ...ended]) {
    t.is(await store.accounts.changeAccount('user:ann', rotateKey({ named, key: newKey() })), undefined);
    t.is(await store.accounts.changeAccount('user:ann', revokeKey({ named, at: new Date() })), undefined);
    t.is(await store.accounts.changeAccount('user:missing', rotateKey({ named, key: newKey() })), undefined);
  }
  t.deepEqual(await store.accounts.findAccount('user:ann'), before);
  t.deepEqual(await store.accounts.findAccount('user:bob'), other);
  t.is(await store.accounts.findAccount('user:missing'), undefined);
}

async function keepsAllowance(t: ExecutionContext, store: Store): Promise<void> {
  const { account } = await mint(store, 'user:ann');
  const before = await keyOwner(store, account);
  t.like(before, { overageEnabled: false });
  t.false('topUp' in (before ?? {}));
  const settings = { overageEnabled: true, topUp: { id: 'a', tokens: 1e12 } };
  const change = changeSettings({ settings, at: new Date('2026-03-31'), by: 'user:operator' });
  const changed = await store.accounts.changeAccount('user:ann', change);
  t.deepEqual(await store.accounts.findAccount('user:ann'), changed);
  t.like(changed, { topUpsMade: [{ id: 'a', tokens: 1e12 }], changes: { 0: settings } });
  t.deepEqual(await store.accounts.changeAccount('user:ann', change), changed);
  const kept = { overageEnabled: true, topUp: { month: '2026-03', tokens: 1e12 } };
  t.like(await keyOwner(store, account), kept);
  await store.accounts.changeAccount('user:ann', rotateKey({ named: namedBy(account), key: newKey() }));
  t.like(await keyOwner(store, await findAccount(store, 'user:ann')), kept);
}

async function passesFailureOn(t: ExecutionContext, store: Store): Promise<void> {
  const { account } = await mint(store, 'user:ann');
  // The last one looks like a lock reported by SQLite, after which the store would try again.
  const busy = Object.assign(new Error('mine'), { code: 'ERR_SQLITE_ERROR', errcode: 5 });
  for (const failure of [new Error('mine'), new TypeError('mine'), busy]) {
    let asked = 0;
    const change = (id: string) =>
      store.accounts.changeAccount(id, () => {
        asked += 1;
        throw failure;
      });
    t.is(await t.throwsAsync(change('user:ann')), failure);
    t.is(await t.throwsAsync(change('user:bob')), failure);
    t.is(asked, 2);
  }
  t.deepEqual(await store.accounts.findAccount('user:ann'), account);
  t.is(await store.accounts.findAccount('user:bob'), undefined);
}

async function writesNothing(t: ExecutionContext, store: Store): Promise<void> {
  const { account } = await mint(store, 'user:ann');
  t.deepEqual(await store.accounts.changeAccount('user:ann', (found) => ({ result: found })), account);
  t.is(await store.accounts.changeAccount('user:bob', (found) => ({ result: found })), undefined);
  t.deepEqual(await setPlan(store, 'free'), account);
  t.deepEqual(await store.accounts.findAccount('user:ann'), account);
  t.is(await store.accounts.findAccount('user:bob'), undefined);
}

export function setPlan(store: Store, plan: string) {
  return store.accounts.changeAccount(
    'user:ann',
    changeSettings({ settings: { plan }, at: new Date(), by: 'user:operator' }),
  );
}

export function namedBy(account: Account): NamedKey {
  return { hashes: [defaultKeyOf(account)?.hash ?? ''] };
}

/** The present owner of the key that the account had then. */
export function keyOwner(store: Store, account: Account) {
  return store.accounts.findKeyOwner([defaultKeyOf(account)?.hash ?? '']);
}

export async function findAccount(store: Store, id: string): Promise<Account> {
  const account = await store.accounts.findAccount(id);
  if (account === undefined) throw new Error(`${id} does not exist`);
  return account;
}
