import type { ExecutionContext } from 'ava';
import { changeSettings } from '../../../shared/store/account-changes.ts';
import type { AccountPage, Store } from '../../../shared/store/store.ts';
import { type Contract, mint, provesOnStore } from './store-contract.ts';

/** What every store guarantees of the list of its accounts. */
export function testAccountsContract({ ordersUtf16 = false, ...contract }: Contract & { ordersUtf16?: boolean }): void {
  const isTold = (text: string) => !ordersUtf16 || !otherwiseInUtf16.test(text);
  const ids = odd.filter(isTold);
  const prove = (title: string, proof: (t: ExecutionContext, store: Store, told: Told) => Promise<void>) =>
    provesOnStore(contract)(title, async (t, store) => {
      if (ordersUtf16) t.log('without characters whose order is another in UTF-16, by which this server goes');
      await proof(t, store, { ids, isTold });
    });
  prove(
    'accounts are listed page by page, each once, in order of their bytes, whatever characters they hold',
    listsAll,
  );
  prove('a prefix is taken as it is: those that begin with it, and no others', listsByPrefix);
  prove('a page begins after the id that is given, be it there or not, within its prefix or outside', beginsAfter);
  prove('an account in the list is as it stands now, without its keys and its history', showsPresentState);
}

/** A server that stands in for MongoDB may order text by UTF-16, in which these do not stand where their bytes do. */
const otherwiseInUtf16 = /[\ud7ff\ue000-\uffff]/u;

/** `ids` are there, and `isTold` of each prefix that is asked for. */
type Told = { ids: readonly string[]; isTold: (text: string) => boolean };

/** In order of their bytes in UTF-8, which is not that of UTF-16: the last but one is two units of it, that before it one. */
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
  // Neither in their order nor in the reverse of it.
  for (const id of [...ids.filter((_, index) => index % 2 === 1), ...ids.filter((_, index) => index % 2 === 0)]) {
    await mint(store, id);
  }
}

async function idsOf(store: Store, page: AccountPage): Promise<string[]> {
  return (await store.listAccounts(page)).map(({ id }) => id);
}

async function listsAll(t: ExecutionContext, store: Store, { ids }: Told): Promise<void> {
  t.deepEqual(await store.listAccounts({ limit: 10 }), []);
  await fill(store, ids);
  t.deepEqual(
    ids.toSorted((one, other) => Buffer.compare(Buffer.from(one), Buffer.from(other))),
    ids,
  );
  // Above and below how many a store may read at once.
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

async function listsByPrefix(t: ExecutionContext, store: Store, { ids, isTold }: Told): Promise<void> {
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
  for (const prefix of [...prefixes, ...oddPrefixes, ...lastPrefixes].filter(isTold)) {
    const wanted = ids.filter((id) => id.startsWith(prefix));
    t.deepEqual(await idsOf(store, { prefix, limit: 100 }), wanted, prefix);
    t.deepEqual(await idsOf(store, { prefix, limit: 1 }), wanted.slice(0, 1), prefix);
  }
}

async function beginsAfter(t: ExecutionContext, store: Store, { ids }: Told): Promise<void> {
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
  await store.changeAccount('user:ann', changeSettings({ settings, by: 'user:olga', at: new Date() }));
  const [ann, bob] = await store.listAccounts({ prefix: 'user:', limit: 2 });
  t.deepEqual(ann, { id: 'user:ann', createdAt: account.createdAt, ...settings });
  t.like(bob, { id: 'user:bob', plan: 'pro', suspended: false, overageEnabled: false });
}
