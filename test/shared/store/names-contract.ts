import type { ExecutionContext } from 'ava';
import type { Account } from '../../../shared/store/records/account.ts';
import { defaultKeyOf } from '../../../shared/store/records/key.ts';
import type { Store } from '../../../shared/store/records/store.ts';
import { type Contract, defaultKeyFrom, mint, newKey, provesOnStore } from './store-contract.ts';

/** The guarantees of every store for display names. */
export function testNamesContract(contract: Contract): void {
  const prove = provesOnStore(contract);
  prove('a display name is kept for an account that exists, and is no change of it', keepsName);
  prove('an account is found by the beginning of its name or of a word of it, in any case', findsByName);
  prove('a change of an account keeps its name, and its removal removes name and last use', losesNameWithAccount);
}

async function keepsName(t: ExecutionContext, store: Store): Promise<void> {
  await store.accounts.keepName({ id: 'user:none', name: 'No One' });
  t.is(await store.accounts.findAccount('user:none'), undefined);
  t.deepEqual(await store.accounts.findNames(['user:none']), new Map());
  await mint(store, 'user:ann');
  await mint(store, 'user:bob');
  const before = await store.accounts.findAccount('user:ann');
  await store.accounts.keepName({ id: 'user:ann', name: 'Ann Example' });
  await store.accounts.keepName({ id: 'user:ann', name: 'Ann Example' });
  t.deepEqual(await store.accounts.findAccount('user:ann'), before);
  t.deepEqual(
    await store.accounts.findNames(['user:ann', 'user:bob', 'user:none']),
    new Map([['user:ann', 'Ann Example']]),
  );
  await store.accounts.keepName({ id: 'user:ann', name: 'Ann Other' });
  t.deepEqual(await store.accounts.findNames(['user:ann']), new Map([['user:ann', 'Ann Other']]));
  t.deepEqual(await store.accounts.findNamed('example', 10), []);
  const many = Array.from({ length: 2_500 }, (_, number) => `user:${number}`);
  t.is((await store.accounts.findNames([...many, 'user:ann'])).size, 1);
}

async function findsByName(t: ExecutionContext, store: Store): Promise<void> {
  const accounts = { ann: 'Ann  Émilie-Rose Example', bob: 'Bob ann', eve: 'Joanna $gte.*', zoe: '山田 太郎' };
  for (const [id, name] of Object.entries(accounts)) {
    await mint(store, `user:${id}`);
    await store.accounts.keepName({ id: `user:${id}`, name });
  }
  const found = async (text: string, limit = 10) => (await store.accounts.findNamed(text, limit)).map(({ id }) => id);
  t.deepEqual(await store.accounts.findNamed('ANN', 10), [
    { id: 'user:ann', name: accounts.ann },
    { id: 'user:bob', name: accounts.bob },
  ]);
  t.deepEqual(await found('ann émilie-rose e'), ['user:ann']);
  t.deepEqual(await found('ÉMILIE'), ['user:ann']);
  t.deepEqual(await found('exam'), ['user:ann']);
  t.deepEqual(await found('太'), ['user:zoe']);
  t.deepEqual(await found('$gte'), ['user:eve']);
  for (const none of ['xample', 'rose', 'ann x', '%', '.*', 'user:ann']) t.deepEqual(await found(none), [], none);
  t.is((await found('ann', 1)).length, 1);
}

async function losesNameWithAccount(t: ExecutionContext, store: Store): Promise<void> {
  const { account } = await mint(store, 'user:ann');
  await store.accounts.keepName({ id: 'user:ann', name: 'Ann' });
  await store.accounts.recordKeyUse([{ account: 'user:ann', keyId: defaultKeyOf(account)?.id ?? '', at: new Date() }]);
  const change = (changes: (account: Account) => Account) =>
    store.accounts.changeAccount('user:ann', (known) => {
      if (known === undefined) throw new Error('it exists');
      return { result: undefined, next: changes({ ...known, version: known.version + 1 }) };
    });
  await change((known) => ({ ...known, suspended: true }));
  t.is((await store.accounts.findNames(['user:ann'])).get('user:ann'), 'Ann');
  await change((known) => ({ ...known, keys: [], removal: { at: new Date(), isDone: false } }));
  t.deepEqual(await store.accounts.findNames(['user:ann']), new Map());
  t.deepEqual(await store.accounts.findNamed('ann', 1), []);
  t.false('usedAt' in ((await store.accounts.listAccounts({ limit: 1 }))[0] ?? {}));
  await store.accounts.keepName({ id: 'user:ann', name: 'Ann' });
  t.deepEqual(await store.accounts.findNames(['user:ann']), new Map(), 'a removed account gets no name');
  const key = newKey();
  const removal = { at: new Date(), isDone: false, isUsed: true };
  await change((known) => ({ ...known, keys: [defaultKeyFrom(key)], removal }));
  const usedAt = new Date();
  await store.accounts.recordKeyUse([{ account: 'user:ann', keyId: key.id, at: usedAt }]);
  await change((known) => known);
  t.like(
    await store.accounts.findAccount('user:ann'),
    { removal, keys: { 0: { id: key.id, lastUsedAt: usedAt } } },
    'it is in use again',
  );
  await change(({ removal: _, ...known }) => known);
  t.is((await store.accounts.findAccount('user:ann'))?.removal, undefined);
  await store.accounts.keepName({ id: 'user:ann', name: 'Ann' });
  t.is((await store.accounts.findNames(['user:ann'])).get('user:ann'), 'Ann');
  const known = await store.accounts.findAccount('user:ann');
  await store.audit.copyAudit('user:ann');
  t.true(known !== undefined && (await store.accounts.removeAccount(known)));
  t.deepEqual(await store.accounts.findNames(['user:ann']), new Map());
}
