import type { ExecutionContext } from 'ava';
import {
  changeKey,
  createKey,
  mintGuestKey,
  revokeKey,
  rotateKey,
} from '../../../ingress/authentication/change-keys.ts';
import { decideAction } from '../../../ingress/routes/operator-action.ts';
import { changeSettings, type Settings } from '../../../shared/account-changes/change-settings.ts';
import type { Decide } from '../../../shared/store/documents.ts';
import type { Account, Origin } from '../../../shared/store/records/account.ts';
import { type AuditPage, type AuditRecord, auditId } from '../../../shared/store/records/audit-records.ts';
import { defaultKeyOf } from '../../../shared/store/records/key.ts';
import type { Store } from '../../../shared/store/records/store.ts';
import { revokeCode } from '../../../shared/store/records/top-up-codes.ts';
import { findAccount, namedBy } from './changes-contract.ts';
import { type Contract, mint, newKey, provesOnStore, type StoreHome } from './store-contract.ts';
import { codeTime, topUpCodeOf } from './top-up-code-records.ts';

/** The guarantees of every store for the audit trail. */
export function testAuditContract(contract: Contract): void {
  const prove = provesOnStore(contract);
  prove(
    'a change of settings leaves one record, which is listed at once and stays the same when copied',
    recordsChange,
  );
  prove(
    'a call that changes nothing leaves no record, and neither does a device that makes its key',
    recordsNothingElse,
  );
  prove('what a person does to keys leaves a record for each change', recordsKeys);
  prove('codes leave a record of their creation and their revocation, which stays the same when copied', recordsCodes);
  prove('of many processes that note the same plan files, each leaves one record', recordsPlanFiles);
  prove('what an operator ends leaves one record, which stays the same when copied', recordsWhatIsEnded);
  prove('250 changes of one account are all listed, newest first, whether copied or not', listsAll);
  prove('changes of keys remove no record', outlivesKeyChanges);
  prove('the list can be filtered by account, actor, kind and time, and by all of them', filters);
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
    kind: 'account',
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
  const [guest, id] = [{ secret: 's', pepper: 'p' }, 'device:1'];
  const key = newKey();
  await store.accounts.changeAccount(
    id,
    mintGuestKey({ account: id, plan: 'guest-device', key, guest }, () => true),
  );
  await set(store, { plan: 'free', suspended: false, overageEnabled: false }, { origin });
  t.deepEqual(await listAll(store), []);
  await set(store, { plan: 'free', ...topUp(5) });
  await set(store, { plan: 'free', ...topUp(5) }, { origin });
  t.like(await listAll(store), { length: 1, 0: { change: topUp(5), reason: null } });
}

async function recordsKeys(t: ExecutionContext, store: Store): Promise<void> {
  const { account, minted } = await mint(store, 'user:ann');
  t.true(minted);
  await mint(store, 'user:ann');
  const first = defaultKeyOf(account)?.id ?? '';
  const [second, third] = [newKey(), newKey()];
  await store.accounts.changeAccount('user:ann', rotateKey({ named: namedBy(account), key: second }));
  const create = createKey({ account: 'user:ann', plan: 'free', key: third, fields: { name: 'a program' } });
  await store.accounts.changeAccount('user:ann', create);
  const change = changeKey({ id: third.id, fields: { name: 'another' }, at: new Date() });
  await store.accounts.changeAccount('user:ann', change);
  await store.accounts.changeAccount('user:ann', change);
  await store.accounts.changeAccount('user:ann', revokeKey({ named: { id: third.id }, at: new Date() }));
  const changes = [
    { keyRevoked: third.id },
    { keyChanged: third.id },
    { keyMinted: third.id },
    { keyRotated: { from: first, to: second.id } },
    { keyMinted: first },
  ];
  for (let copied = 0; copied < 2; copied++) {
    const records = await listAll(store, { kind: 'key' });
    t.deepEqual(
      new Set(records.map(({ change }) => JSON.stringify(change))),
      new Set(changes.map((each) => JSON.stringify(each))),
    );
    t.true(records.every(({ actor, account }) => actor === 'user:ann' && account === 'user:ann'));
    await store.audit.copyAudit('user:ann');
  }
}

async function recordsCodes(t: ExecutionContext, store: Store, home: StoreHome): Promise<void> {
  await using beside = await home.open();
  const codes = Array.from({ length: 3 }, () => topUpCodeOf({ note: 'Spring sale', tokens: 7 }));
  const [first, second] = codes;
  if (first === undefined || second === undefined) throw new Error('there are three');
  await store.topUpCodes.insertCodes(codes);
  const revoked = revokeCode({ by: 'user:otto', at: new Date(codeTime.getTime() + 1), from: '203.0.113.9' });
  for (const each of [store, beside]) await each.topUpCodes.changeCode(second.id, revoked);
  const { tokens, note } = first;
  const ofCode = { kind: 'code', account: null, reason: null };
  for (let copied = 0; copied < 3; copied++) {
    const records = await listAll(store);
    t.deepEqual(
      records.map(({ id: _, at: __, ...record }) => record),
      [
        {
          ...ofCode,
          actor: 'user:otto',
          address: '203.0.113.9',
          change: { codeRevoked: { id: second.id, tokens, note } },
        },
        {
          ...ofCode,
          actor: 'user:olga',
          address: '198.51.100.7',
          change: { codesCreated: { id: first.id, tokens, note, count: 3 } },
        },
      ] as unknown as typeof records,
    );
    t.false(JSON.stringify(records).includes('hash'));
    t.deepEqual(await listAll(store, { kind: 'code', actor: 'user:otto' }), records.slice(0, 1));
    if (copied === 0) await Promise.all([store, beside].map((each) => each.audit.copyCodeAudit(first.id)));
    else t.is((await store.audit.copyCodeAuditAfter('', 10)).copied, copied === 1 ? 1 : 0);
  }
  t.deepEqual(await store.topUpCodes.findCode(first.hash), first, 'the outbox is no part of a code');
}

const planFileOf = (models: Record<string, string>, others: Record<string, string> = {}) => {
  const digests = (names: object) => Object.entries(names).map(([name, digest]) => ({ name, digest }));
  return { models: digests(models), backends: [], plans: [], others: digests(others) };
};

async function recordsPlanFiles(t: ExecutionContext, store: Store, home: StoreHome): Promise<void> {
  await using beside = await home.open();
  const files = {
    one: planFileOf({ a: '1', b: '1' }, { prices: '1' }),
    two: planFileOf({ a: '2', c: '1' }, { prices: '2' }),
    three: planFileOf({ a: '2', c: '1' }, { prices: '2' }),
  };
  /** Two processes, one of which is late. */
  const known: (number | undefined)[] = [undefined, undefined];
  const note = async (process: number, generation: keyof typeof files) => {
    clock += 1;
    const noted = { generation, contents: files[generation], at: new Date(clock) };
    const each = process === 0 ? store : beside;
    const before = known[process];
    known[process] = await each.audit.notePlanFile(noted, before);
    t.is(await each.audit.notePlanFile(noted, before), known[process], 'a repeat');
  };
  await Promise.all([note(0, 'one'), note(1, 'one')]);
  await note(0, 'two');
  await note(0, 'three');
  await note(0, 'one');
  for (const generation of ['two', 'three', 'one'] as const) await note(1, generation);
  await note(1, 'three');
  const records = (await listAll(store, { kind: 'plan_file' })).toReversed();
  t.deepEqual(
    records.map(({ change }) => [change.planFile?.from, change.planFile?.to]),
    [
      [null, 'one'],
      ['one', 'two'],
      ['two', 'three'],
      ['three', 'one'],
      ['one', 'three'],
    ],
  );
  t.deepEqual(records[1]?.change.planFile, {
    from: 'one',
    to: 'two',
    models: { added: ['c'], removed: ['b'], changed: ['a'], more: 0 },
    others: ['prices'],
  });
  t.deepEqual(records[2]?.change.planFile, { from: 'two', to: 'three', others: [] });
  t.true(records.every(({ actor, account, address }) => actor === null && account === null && address === null));
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
    const records = (await listAll(store)).filter(({ actor }) => actor === 'user:olga');
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
  const ofAccount = await listAll(store, { account: 'user:ann', kind: 'account' });
  t.like(ofAccount, { length: 1, 0: { change: topUp(1), reason: origin.reason } });
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
  const all = await listAll(store);
  const at = (index: number) => all[index]?.at ?? new Date(0);
  const times = [{ start: at(3), end: at(1) }, { start: at(3) }, { end: at(3) }] as const;
  for (const [index, expected] of [
    [4, 3],
    [6, 5, 4, 3],
    [2, 1],
  ].entries()) {
    const span = times[index] ?? {};
    t.deepEqual(await topUpsOf(store, span), expected);
    t.deepEqual(await topUpsOf(store, { ...span, kind: 'account', limit: 1 }), expected);
    const ofBob = expected.filter((tokens) => tokens % 2 === 0);
    t.deepEqual(await topUpsOf(store, { ...span, account: bob, kind: 'account' }), ofBob);
    const byOtto = expected.filter((tokens) => tokens > 3);
    t.deepEqual(await topUpsOf(store, { ...span, actor: 'user:otto', kind: 'account' }), byOtto);
    const both = { account: bob, actor: 'user:otto', kind: 'account' } as const;
    t.deepEqual(
      await topUpsOf(store, { ...span, ...both }),
      ofBob.filter((tokens) => tokens > 3),
    );
  }
  for (const filter of [{}, { account: ann }, { actor: 'user:otto' }, { account: ann, actor: 'user:otto' }])
    t.deepEqual(await topUpsOf(store, { ...filter, kind: ['key', 'code'] }), []);
  t.deepEqual(await topUpsOf(store, { account: ann, kind: ['key', 'account', 'batch'], limit: 2 }), [5, 3, 1]);
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
    if (index % 3 !== 0) await set(store, topUp(index), { account });
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
