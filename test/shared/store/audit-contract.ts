import type { ExecutionContext } from 'ava';
import { revokeKey, rotateKey } from '../../../ingress/authentication/change-keys.ts';
import { decideAction } from '../../../ingress/routes/operator-action.ts';
import { changeSettings, type Settings } from '../../../shared/account-changes/change-settings.ts';
import type { Decide } from '../../../shared/store/documents.ts';
import type { Account, Origin } from '../../../shared/store/records/account.ts';
import { type AuditPage, type AuditRecord, auditId } from '../../../shared/store/records/audit-records.ts';
import { defaultKeyOf } from '../../../shared/store/records/key.ts';
import type { Store } from '../../../shared/store/records/store.ts';
import { findAccount, namedBy } from './changes-contract.ts';
import { type Contract, mint, newKey, provesOnStore, type StoreHome } from './store-contract.ts';

/** The guarantees of every store for the audit trail. */
export function testAuditContract(contract: Contract): void {
  const prove = provesOnStore(contract);
  prove(
    'a change of settings leaves one record, which is listed at once and stays the same when copied',
    recordsChange,
  );
  prove('a call that changes nothing leaves no record, and neither does a change of a key', recordsNothingElse);
  prove('what an operator ends leaves one record, which stays the same when copied', recordsWhatIsEnded);
  prove('250 changes of one account are all listed, newest first, whether copied or not', listsAll);
  prove('changes of keys remove no record', outlivesKeyChanges);
  prove('the list can be filtered by account, by actor, or by both', filters);
  prove('a new record does not appear on a later page, and does not shift the others', staysInPlace);
  prove('accounts are copied page by page, and those with nothing to copy do not change', copiesByPage);
  prove('concurrent and repeated copying keeps each record once', copiesAtOnce);
  prove('a record is listed while it is copied', listsWhileCopied);
}

const origin: Origin = { address: '198.51.100.7', reason: 'paid invoice 7' };
let clock = Date.parse('2026-03-01');

type Wanted = { account?: string; by?: string; at?: Date; origin?: Origin };

/** A decision on these settings, a millisecond after the previous one. */
function settle(settings: Settings, wanted: Wanted = {}): Decide<Account, Account | undefined> {
  clock += 1;
  const { account = 'user:ann', by = 'user:olga', at = new Date(clock) } = wanted;
  const from = wanted.origin && { origin: wanted.origin };
  return changeSettings({ settings, by, at, unknown: { id: account, plan: 'free' }, ...from });
}

function set(store: Store, settings: Settings, wanted: Wanted = {}): Promise<Account | undefined> {
  return store.accounts.changeAccount(wanted.account ?? 'user:ann', settle(settings, wanted));
}

/** All records, read in pages. */
async function listAll(store: Store, filter: Partial<AuditPage> = {}): Promise<AuditRecord[]> {
  const { limit = 100 } = filter;
  const all: AuditRecord[] = [];
  for (;;) {
    const page = await store.audit.listAudit({ ...filter, limit, after: all.at(-1)?.id ?? filter.after });
    all.push(...page);
    if (page.length < limit) return all;
  }
}

/** The tokens of all top-ups, in the order of their records. */
async function topUpsOf(store: Store, filter: Partial<AuditPage> = {}): Promise<number[]> {
  return (await listAll(store, filter)).map(({ change }) => change.topUp?.tokens ?? 0);
}

const topUp = (tokens: number) => ({ topUp: { id: `top-up ${tokens}`, tokens } });
const downFrom = (count: number) => Array.from({ length: count }, (_, index) => count - index);

async function recordsChange(t: ExecutionContext, store: Store): Promise<void> {
  t.deepEqual(await listAll(store), []);
  const at = new Date('2026-02-03T04:05:06.789Z');
  await mint(store, 'user:ann');
  const changed = await set(store, { plan: 'pro', overageEnabled: true, suspended: true, ...topUp(5) }, { at, origin });
  t.deepEqual(changed?.changes[0]?.origin, origin);
  t.false('origin' in ((await findAccount(store, 'user:ann')).changes[0] ?? {}), 'only the record keeps the origin');
  const [record, ...others] = await listAll(store);
  t.deepEqual(others, []);
  t.deepEqual(record, {
    id: record?.id ?? '',
    at,
    actor: 'user:olga',
    address: '198.51.100.7',
    account: 'user:ann',
    change: { plan: { from: 'free', to: 'pro' }, overageEnabled: true, suspended: true, ...topUp(5) },
    reason: 'paid invoice 7',
  });
  t.regex(record?.id ?? '', auditId);
  for (const account of ['user:ann', 'user:ann', 'user:missing']) {
    await store.audit.copyAudit(account);
    t.deepEqual(await listAll(store), [record]);
    t.deepEqual(await listAll(store, { account: 'user:ann' }), [record]);
  }

  await set(store, { suspended: false }, { at });
  const [second] = await listAll(store);
  t.like(second, { address: null, reason: null, change: { suspended: false } });
  t.true((second?.id ?? '') > (record?.id ?? ''), 'of two changes in the same millisecond, the later one comes first');
  await set(store, { plan: 'pro' }, { account: 'user:unknown' });
  t.like(await listAll(store, { account: 'user:unknown' }), { length: 1, 0: { change: { plan: { from: 'free' } } } });
}

async function recordsNothingElse(t: ExecutionContext, store: Store): Promise<void> {
  const { account } = await mint(store, 'user:ann');
  await store.accounts.changeAccount('user:ann', rotateKey({ named: namedBy(account), key: newKey() }));
  await set(store, { plan: 'free', suspended: false, overageEnabled: false }, { origin });
  t.deepEqual(await listAll(store), []);
  await set(store, { plan: 'free', ...topUp(5) });
  await set(store, { plan: 'free', ...topUp(5) }, { origin });
  t.like(await listAll(store), { length: 1, 0: { change: topUp(5), reason: null } });
}

async function recordsWhatIsEnded(t: ExecutionContext, store: Store): Promise<void> {
  const { account } = await mint(store, 'user:ann');
  const [keyId = '', at] = [defaultKeyOf(account)?.id, new Date('2026-02-03T04:05:06.789Z')];
  const by = { by: 'user:olga', at, origin };
  const unknown = { id: 'user:ann', plan: 'free' };
  for (const action of [{ batchCancelled: 'batch_1' }, { requestEnded: 'req_1' }, { requestEnded: 'req_2' }]) {
    await store.accounts.changeAccount('user:ann', decideAction({ action, by, unknown }));
    await store.accounts.changeAccount('user:ann', decideAction({ action, by, unknown }));
  }
  await store.accounts.changeAccount('user:ann', revokeKey({ named: { id: keyId }, ...by }));
  const changes = [
    { keyRevoked: keyId },
    { requestEnded: 'req_2' },
    { requestEnded: 'req_1' },
    { batchCancelled: 'batch_1' },
  ];
  for (let copied = 0; copied < 2; copied++) {
    const records = await listAll(store);
    t.deepEqual(
      records.map(({ change }) => change),
      changes,
    );
    t.true(records.every(({ address, reason }) => address === origin.address && reason === origin.reason));
    await store.audit.copyAudit('user:ann');
  }
  t.like((await findAccount(store, 'user:ann')).changes, { length: 5, 0: { keyRevoked: keyId, by: 'user:olga' } });
  const action = { batchCancelled: 'batch_2' };
  await store.accounts.changeAccount(
    'user:new',
    decideAction({ action, by, unknown: { id: 'user:new', plan: 'free' } }),
  );
  t.like(await listAll(store, { account: 'user:new' }), { length: 1, 0: { change: action } });
}

async function listsAll(t: ExecutionContext, store: Store): Promise<void> {
  for (let count = 1; count <= 250; count++) {
    await set(store, topUp(count));
    if (count === 100) await store.audit.copyAudit('user:ann');
  }
  t.is((await findAccount(store, 'user:ann')).changes.length, 200);
  for (const filter of [{}, { account: 'user:ann' }, { actor: 'user:olga' }, { limit: 7 }, { limit: 300 }]) {
    t.deepEqual(await topUpsOf(store, filter), downFrom(250), JSON.stringify(filter));
  }
  const before = await listAll(store);
  await store.audit.copyAudit('user:ann');
  t.deepEqual(await listAll(store), before);
  t.is(new Set(before.map(({ id }) => id)).size, 250);
}

async function outlivesKeyChanges(t: ExecutionContext, store: Store): Promise<void> {
  await set(store, topUp(1), { origin });
  let { account } = await mint(store, 'user:ann');
  for (let count = 0; count < 210; count++) {
    const rotated = await store.accounts.changeAccount(
      'user:ann',
      rotateKey({ named: namedBy(account), key: newKey() }),
    );
    account = rotated ?? account;
  }
  t.true(account.changes.every(({ keyRotated }) => keyRotated !== undefined));
  t.like(await listAll(store, { account: 'user:ann' }), { length: 1, 0: { change: topUp(1), reason: origin.reason } });
}

async function filters(t: ExecutionContext, store: Store): Promise<void> {
  const [ann, bob] = ['user:ann', 'user:bob'];
  for (const [index, account] of [ann, bob, ann, bob, ann, bob].entries()) {
    await set(store, topUp(index + 1), { account, by: index < 3 ? 'user:olga' : 'user:otto' });
    if (index === 2) await store.audit.copyAudit(ann);
  }
  t.deepEqual(await topUpsOf(store), downFrom(6));
  t.deepEqual(await topUpsOf(store, { account: ann }), [5, 3, 1]);
  t.deepEqual(await topUpsOf(store, { account: ann, limit: 1 }), [5, 3, 1]);
  t.deepEqual(await topUpsOf(store, { actor: 'user:olga', limit: 2 }), [3, 2, 1]);
  t.deepEqual(await topUpsOf(store, { account: bob, actor: 'user:otto' }), [6, 4]);
  for (const other of ['user:Ann', 'user:', '', '*', '%', '$ne', 'user:ann ']) {
    t.deepEqual(await topUpsOf(store, { account: other }), []);
    t.deepEqual(await topUpsOf(store, { actor: other }), []);
  }
}

async function staysInPlace(t: ExecutionContext, store: Store): Promise<void> {
  for (let count = 1; count <= 5; count++) await set(store, topUp(count));
  const first = await store.audit.listAudit({ limit: 2 });
  for (const account of ['user:ann', 'user:bob']) await set(store, topUp(6), { account });
  await store.audit.copyAudit('user:ann');
  t.deepEqual(await topUpsOf(store, { after: first.at(-1)?.id }), [3, 2, 1]);
  t.deepEqual(await topUpsOf(store), [6, 6, 5, 4, 3, 2, 1]);
  t.deepEqual(await topUpsOf(store, { after: `audit_${'Z'.repeat(26)}` }), [6, 6, 5, 4, 3, 2, 1]);
  t.deepEqual(await topUpsOf(store, { after: `audit_${'0'.repeat(26)}` }), []);
}

async function copiesByPage(t: ExecutionContext, store: Store): Promise<void> {
  t.deepEqual(await store.audit.copyAuditAfter('', 10), { copied: 0, last: undefined, unreadable: [] });
  const accounts = Array.from({ length: 45 }, (_, index) => `user:${String(index).padStart(2, '0')}`);
  for (const [index, account] of accounts.entries()) {
    if (index % 3 === 0) await mint(store, account);
    else await set(store, topUp(index), { account });
  }
  for (let after: string | undefined = ''; after !== undefined; )
    after = (await store.audit.copyAuditAfter(after, 22)).last;
  t.deepEqual(
    await topUpsOf(store),
    downFrom(44).filter((index) => index % 3 !== 0),
  );
  t.deepEqual(await store.audit.copyAuditAfter('', 100), { copied: 0, last: undefined, unreadable: [] });
  t.like(await findAccount(store, 'user:01'), { version: 1, changes: { length: 1 } });
}

async function copiesAtOnce(t: ExecutionContext, store: Store, home: StoreHome): Promise<void> {
  await using beside = await home.open();
  for (let count = 1; count <= 3; count++) await set(store, topUp(count));
  for (let count = 4; count <= 20; count++) {
    const copying = [store, beside].map((each) => each.audit.copyAudit('user:ann'));
    await Promise.all([...copying, set(store, topUp(count)), beside.audit.copyAuditAfter('', 10)]);
  }
  t.deepEqual(await topUpsOf(beside), downFrom(20));
  await beside.audit.copyAudit('user:ann');
  t.deepEqual(await topUpsOf(store), downFrom(20));
}

async function listsWhileCopied(t: ExecutionContext, store: Store, home: StoreHome): Promise<void> {
  await using beside = await home.open();
  for (let count = 1; count <= 40; count++) {
    await set(store, topUp(count));
    const lists = [{}, { account: 'user:ann' }, {}].map((filter) => store.audit.listAudit({ ...filter, limit: 1 }));
    const [, ...listed] = await Promise.all([beside.audit.copyAudit('user:ann'), ...lists]);
    for (const records of listed) t.like(records, { length: 1, 0: { change: topUp(count) } });
  }
}
