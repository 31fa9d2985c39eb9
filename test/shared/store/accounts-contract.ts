import type { ExecutionContext } from 'ava';
import { createKey, mintGuestKey, revokeKey } from '../../../ingress/authentication/change-keys.ts';
import { changed, changeSettings } from '../../../shared/account-changes/change-settings.ts';
import { beginRemoval } from '../../../shared/account-changes/remove-account.ts';
import type { Account } from '../../../shared/store/records/account.ts';
import type { AccountPage } from '../../../shared/store/records/account-store.ts';
import { defaultKeyOf } from '../../../shared/store/records/key.ts';
import type { Store } from '../../../shared/store/records/store.ts';
import { type Contract, mint, newKey, provesOnStore, type StoreHome } from './store-contract.ts';

/** The guarantees of every store for its list of accounts. */
export function testAccountsContract({ ordersUtf16 = false, ...contract }: Contract & { ordersUtf16?: boolean }): void {
  const isQueried = (text: string) => !ordersUtf16 || !otherwiseInUtf16.test(text);
  const ids = odd.filter(isQueried);
  const prove = (
    title: string,
    proof: (t: ExecutionContext, store: Store, queried: Queried, home: StoreHome) => Promise<void>,
  ) =>
    provesOnStore(contract)(title, async (t, store, home) => {
      if (ordersUtf16) t.log('without characters that sort differently in UTF-16, because this server sorts by UTF-16');
      await proof(t, store, { ids, isQueried }, home);
    });
  prove('accounts are listed page by page, each once, in byte order, with any characters in their ids', listsAll);
  prove('a prefix is literal: it matches the ids that start with it, and no others', listsByPrefix);
  prove('a page starts after the given id, whether it exists or not, inside its prefix or outside', beginsAfter);
  prove('a listed account has its current settings, without its keys and its history', showsPresentState);
  prove('a removed account leaves nothing behind, and a new account of the same id starts empty', removesAll);
  prove('an account whose removal has begun is listed for that, and as an account until it is done', listsRemovals);
  prove('the document of a removed account has nothing that its removal dropped', emptiesRemoved);
  prove('an account that was changed or used since it was read is not removed', keepsWhatMoved);
  prove('an account is removed with its further keys', removesFurtherKeys);
  prove('an account is found by the id of any of its keys and by the first characters of one', findsByKey);
  prove('if an account is used and removed at the same time, only one of the two happens', racesWithUse);
}

/** A substitute for MongoDB may sort text by UTF-16. There these characters sort differently than by bytes. */
const otherwiseInUtf16 = /[\ud7ff\ue000-\uffff]/u;

/** `ids` are stored. `isQueried` says whether a prefix is queried. */
type Queried = { ids: readonly string[]; isQueried: (text: string) => boolean };

/** In byte order of UTF-8, which differs from UTF-16: U+1F642 is two units of UTF-16, and U+FFFF is one. */
const odd = [
  'device:00ff',
  'user:',
  'user:A',
  'user:a',
  'user:a b',
  'user:a%',
  'user:a%b',
  'user:a*',
  'user:a.b',
  'user:a\\_',
  'user:a_',
  'user:aa',
  'user:b',
  'user:e\u0301',
  'user:\u00e9',
  'user:\ud7ff',
  'user:\ud7ff\u{10ffff}',
  'user:\ue000',
  'user:\uffff',
  'user:\u{1f642}',
  'user:\u{10ffff}',
  'user:\u{10ffff}a',
];

async function fill(store: Store, ids: readonly string[]): Promise<void> {
  // Neither in order nor in reverse order.
  for (const id of [...ids.filter((_, index) => index % 2 === 1), ...ids.filter((_, index) => index % 2 === 0)]) {
    await mint(store, id);
  }
}

async function idsOf(store: Store, page: AccountPage): Promise<string[]> {
  return (await store.accounts.listAccounts(page)).map(({ id }) => id);
}

async function listsAll(t: ExecutionContext, store: Store, { ids }: Queried): Promise<void> {
  t.deepEqual(await store.accounts.listAccounts({ limit: 10 }), []);
  await fill(store, ids);
  t.deepEqual(
    ids.toSorted((one, other) => Buffer.compare(Buffer.from(one), Buffer.from(other))),
    ids,
  );
  // Above and below the number that a store may read at once.
  for (const limit of [1, 3, 21, 22, 100]) {
    const listed: string[] = [];
    for (let after: string | undefined; ; after = listed.at(-1)) {
      const page = await idsOf(store, { after, limit });
      t.true(page.length <= limit);
      listed.push(...page);
      if (page.length < limit) break;
    }
    t.deepEqual(listed, ids, `by ${limit}`);
  }
}

async function listsByPrefix(t: ExecutionContext, store: Store, { ids, isQueried }: Queried): Promise<void> {
  await fill(store, ids);
  const prefixes = [
    '',
    'device:',
    'device:00',
    'device:00ff',
    'device:00fg',
    'user',
    'user:',
    'user:a',
    'user:z',
    '%',
    '_',
  ];
  const oddPrefixes = ['user:a%', 'user:a_', 'user:a\\', 'user:a.', 'user:a*', 'user:e', 'user:\ud7ff', 'user:\ue000'];
  const lastPrefixes = ['user:\uffff', 'user:\u{1f642}', 'user:\u{10ffff}', '\u{10ffff}', '\u{10ffff}\u{10ffff}'];
  for (const prefix of [...prefixes, ...oddPrefixes, ...lastPrefixes].filter(isQueried)) {
    const wanted = ids.filter((id) => id.startsWith(prefix));
    t.deepEqual(await idsOf(store, { prefix, limit: 100 }), wanted, prefix);
    t.deepEqual(await idsOf(store, { prefix, limit: 1 }), wanted.slice(0, 1), prefix);
  }
}

async function beginsAfter(t: ExecutionContext, store: Store, { ids }: Queried): Promise<void> {
  await fill(store, ids);
  const list = (after: string, prefix = 'user:a') => idsOf(store, { prefix, after, limit: 100 });
  const all = ids.filter((id) => id.startsWith('user:a'));
  t.deepEqual(await list('user:a'), all.slice(1));
  t.deepEqual(await list('user:a%'), all.slice(all.indexOf('user:a%') + 1));
  t.deepEqual(await list('user:a%a'), all.slice(all.indexOf('user:a%b')));
  t.deepEqual(await list(''), all);
  t.deepEqual(await list('device:00ff'), all);
  t.deepEqual(await list('user:aa'), []);
  t.deepEqual(await list('user:b'), []);
  t.deepEqual(await list('user:\u{10ffff}a', ''), []);
  t.deepEqual(await list('user:\u{1f641}', ''), ids.slice(-3));
}

async function showsPresentState(t: ExecutionContext, store: Store): Promise<void> {
  const { account } = await mint(store, 'user:ann', { plan: 'free' });
  await mint(store, 'user:bob', { plan: 'pro' });
  const settings = { plan: 'pro', suspended: true, overageEnabled: true };
  await store.accounts.changeAccount('user:ann', changeSettings({ settings, by: 'user:olga', at: new Date() }));
  const usedAt = new Date(5);
  await store.accounts.recordKeyUse([{ account: 'user:ann', keyId: defaultKeyOf(account)?.id ?? '', at: usedAt }]);
  const [ann, bob] = await store.accounts.listAccounts({ prefix: 'user:', limit: 2 });
  t.deepEqual(ann, { id: 'user:ann', createdAt: account.createdAt, ...settings, usedAt });
  t.false('usedAt' in (bob ?? {}));
  t.like(bob, { id: 'user:bob', plan: 'pro', suspended: false, overageEnabled: false });
}

const device = 'device:00ff';

/** A device with a used key, as read from the store. */
async function usedDevice(store: Store): Promise<Account> {
  const key = newKey();
  const guest = { secret: 's', pepper: 'p' };
  await store.accounts.changeAccount(
    device,
    mintGuestKey({ account: device, plan: 'guest-device', key, guest }, () => true),
  );
  await store.accounts.recordKeyUse([{ account: device, keyId: key.id, at: new Date(5) }]);
  const found = await store.accounts.findAccount(device);
  if (found === undefined) throw new Error('the account was just created');
  return found;
}

async function removesAll(t: ExecutionContext, store: Store): Promise<void> {
  await mint(store, 'user:ann');
  const found = await usedDevice(store);
  t.true(await store.accounts.removeAccount(found));
  t.is(await store.accounts.findAccount(device), undefined);
  t.is(await store.accounts.findKeyOwner([defaultKeyOf(found)?.hash ?? '']), undefined);
  t.deepEqual(await idsOf(store, { limit: 10 }), ['user:ann']);
  t.false(await store.accounts.removeAccount(found), 'it is gone');
  await store.accounts.recordKeyUse([{ account: device, keyId: defaultKeyOf(found)?.id ?? '', at: new Date(6) }]);
  t.is(await store.accounts.findAccount(device), undefined, 'a late note restores nothing');

  const again = await mint(store, device);
  t.deepEqual(await store.accounts.findAccount(device), again.account, 'without the use of the previous one');
  t.false(await store.accounts.removeAccount(found), 'another one');
}

async function listsRemovals(t: ExecutionContext, store: Store): Promise<void> {
  const names = ['user:a', 'user:b', 'user:c', 'user:d'];
  for (const name of names) await mint(store, name);
  const remove = (id: string, isDone: boolean, suspended = false) =>
    store.accounts.changeAccount(id, (known) => {
      if (known === undefined) throw new Error('it exists');
      const next = { ...known, version: known.version + 1, suspended, removal: { at: new Date(), isDone } };
      return { result: next, next };
    });
  const removals = (after = '', limit = 10) => store.accounts.listRemovals({ after, limit });
  t.deepEqual(await removals(), []);
  const begun = await remove('user:a', false);
  t.deepEqual(await store.accounts.findAccount('user:a'), begun);
  await remove('user:b', true);
  await remove('user:c', false);
  t.deepEqual(await removals(), ['user:a', 'user:c']);
  t.deepEqual(await removals('', 1), ['user:a']);
  t.deepEqual(await removals('user:a'), ['user:c']);
  t.deepEqual(await idsOf(store, { limit: 10 }), ['user:a', 'user:c', 'user:d']);
  t.deepEqual(await idsOf(store, { limit: 1, after: 'user:a' }), ['user:c'], 'a page is full without it');
  await store.accounts.changeAccount('user:a', (known) => {
    if (known === undefined) throw new Error('it exists');
    return { result: undefined, next: changed(known, { at: new Date(), by: 'user:a' }) };
  });
  t.deepEqual(await removals(), ['user:a', 'user:c'], 'also if it was used since');
  await remove('user:b', true, true);
  t.deepEqual(await idsOf(store, { limit: 10 }), names, 'one that is suspended can be resumed');
}

async function emptiesRemoved(t: ExecutionContext, store: Store): Promise<void> {
  const [at, by] = [new Date(7), 'user:olga'];
  await mint(store, 'user:ann');
  const create = createKey({ account: 'user:ann', plan: 'free', key: newKey(), fields: { name: 'a program' } });
  await store.accounts.changeAccount('user:ann', create);
  await store.accounts.changeAccount(
    'user:ann',
    changeSettings({ settings: { topUp: { id: 'a', tokens: 1 } }, by, at }),
  );
  await usedDevice(store);
  for (const id of ['user:ann', device]) {
    const removed = await store.accounts.changeAccount(id, beginRemoval({ at, by, plan: 'free' }));
    t.deepEqual(await store.accounts.findAccount(id), removed);
    t.like(removed, { guest: undefined, topUp: undefined, keys: [] });
  }
}

async function keepsWhatMoved(t: ExecutionContext, store: Store): Promise<void> {
  const found = await usedDevice(store);
  const neverUsed = found.keys.map(({ lastUsedAt: _, ...key }) => key);
  t.false(await store.accounts.removeAccount({ ...found, keys: neverUsed }));
  await store.accounts.recordKeyUse([{ account: device, keyId: defaultKeyOf(found)?.id ?? '', at: new Date(6) }]);
  t.false(await store.accounts.removeAccount(found));
  const used = await store.accounts.findAccount(device);
  const suspend = changeSettings({ settings: { suspended: true }, by: 'user:olga', at: new Date() });
  const suspended = await store.accounts.changeAccount(device, suspend);
  t.false(used === undefined || (await store.accounts.removeAccount(used)));
  t.deepEqual(await store.accounts.findAccount(device), suspended);
  t.false(suspended !== undefined && (await store.accounts.removeAccount(suspended)), 'its audit record still waits');
  await store.audit.copyAudit(device);
  t.true(suspended !== undefined && (await store.accounts.removeAccount(suspended)));

  const { account } = await mint(store, 'user:ann');
  await store.audit.copyAudit('user:ann');
  t.true(await store.accounts.removeAccount(account), 'a key that was never used');
}

async function removesFurtherKeys(t: ExecutionContext, store: Store): Promise<void> {
  const key = newKey();
  const create = createKey({ account: 'user:ann', plan: 'free', key, fields: { name: 'a program' } });
  const created = await store.accounts.changeAccount('user:ann', create);
  await store.audit.copyAudit('user:ann');
  t.true(await store.accounts.removeAccount(created));
  t.is(await store.accounts.findKeyOwner([key.hash]), undefined);
  const { account } = await mint(store, 'user:ann');
  t.deepEqual(await store.accounts.findAccount('user:ann'), account, 'without the keys of the previous one');
  t.is(await store.accounts.findKeyOwner([key.hash]), undefined);
}

async function findsByKey(t: ExecutionContext, store: Store): Promise<void> {
  const keyOf = (display: string) => ({ ...newKey(), display });
  const [ann, bob, further] = [keyOf('svc_AAAAAA'), keyOf('svc_AAAAAB'), keyOf('svc_ABCDEF')];
  await mint(store, 'user:ann', { key: ann });
  await mint(store, 'user:bob', { key: bob });
  const create = createKey({ account: 'user:bob', plan: 'free', key: further, fields: { name: 'a program' } });
  await store.accounts.changeAccount('user:bob', create);
  const byStart = (start: string, limit = 10) => store.accounts.findAccountsByKey({ start, limit });
  t.deepEqual(await byStart('svc_'), ['user:ann', 'user:bob']);
  t.deepEqual(await byStart('svc_', 1), ['user:ann']);
  t.deepEqual(await byStart('svc_AAAAAB'), ['user:bob']);
  t.deepEqual(await byStart('svc_AB'), ['user:bob']);
  t.deepEqual(await byStart('svc_a'), [], 'the case of letters matters');
  t.deepEqual(await byStart('svc_%'), []);
  for (const { id } of [bob, further])
    t.deepEqual(await store.accounts.findAccountsByKey({ id, limit: 10 }), ['user:bob']);
  t.deepEqual(await store.accounts.findAccountsByKey({ id: 'key_', limit: 10 }), [], 'only whole ids');

  await store.accounts.changeAccount('user:bob', revokeKey({ named: { id: further.id }, at: new Date() }));
  t.deepEqual(await byStart('svc_ABCDEF'), [], 'it has ended');
  t.deepEqual(await store.accounts.findAccountsByKey({ id: further.id, limit: 10 }), []);
}

async function racesWithUse(t: ExecutionContext, one: Store, _: Queried, home: StoreHome): Promise<void> {
  await using other = await home.open();
  for (let round = 0; round < 20; round++) {
    const found = await usedDevice(one);
    const at = new Date(10 + round);
    const [removed] = await Promise.all([
      one.accounts.removeAccount(found),
      other.accounts.recordKeyUse([{ account: device, keyId: defaultKeyOf(found)?.id ?? '', at }]),
    ]);
    const left = await one.accounts.findAccount(device);
    t.deepEqual(defaultKeyOf(left)?.lastUsedAt, removed ? undefined : at);
    if (left !== undefined) t.true(await one.accounts.removeAccount(left));
  }
}
