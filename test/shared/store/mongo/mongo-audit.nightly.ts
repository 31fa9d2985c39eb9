import type { ExecutionContext } from 'ava';
import test from 'ava';
import { changeSettings } from '../../../../shared/account-changes/change-settings.ts';
import { openMongoStore } from '../../../../shared/store/mongo/mongo-store.ts';
import type { AuditRecord } from '../../../../shared/store/records/audit-records.ts';
import type { Store } from '../../../../shared/store/records/store.ts';
import { openMongoTests } from '../../../support/mongodb/mongo-tests.ts';
import { patientLimits } from '../../../support/mongodb/open-patient-store.ts';
import { urlThrough } from '../../../support/mongodb/start-mongo.ts';
import { startTcpProxy } from '../../../support/tcp-proxy.ts';
import { testAuditContract } from '../audit-contract.ts';
import { failsWith, mint } from '../store-contract.ts';

const { mongoTest, mongoTestAlone, createHome } = await openMongoTests(test);

testAuditContract({ test: mongoTestAlone, createHome });

type Home = Awaited<ReturnType<typeof createHome>>;

const origin = { address: '198.51.100.7', reason: 'abuse' };
const suspend = changeSettings({
  settings: { suspended: true },
  at: new Date('2026-03-01'),
  by: 'user:olga',
  origin,
  unknown: { id: 'user:ann', plan: 'free' },
});

async function countIn(home: Home): Promise<{ outbox: number; records: number }> {
  const account = await home.database.collection<{ _id: string; outbox?: unknown[] }>('accounts').findOne();
  const records = await home.database.collection('audit_records').countDocuments({ kind: 'account' });
  return { outbox: account?.outbox?.length ?? 0, records };
}

/** Each list has exactly this record, before and after waiting records are copied. */
async function isWhole(t: ExecutionContext, store: Store, home: Home): Promise<void> {
  const list = () =>
    Promise.all(
      [{}, { account: 'user:ann' }, { actor: 'user:olga' }].map((filter) =>
        store.audit.listAudit({ ...filter, kind: 'account', limit: 10 }),
      ),
    );
  const record = { actor: 'user:olga', account: 'user:ann', change: { suspended: true }, ...origin };
  const before: AuditRecord[][] = await list();
  for (const listed of before) t.like(listed, { length: 1, 0: record });
  await store.audit.copyAuditAfter('', 10);
  t.deepEqual(await list(), before);
  t.deepEqual(await countIn(home), { outbox: 0, records: 1 });
}

const points = [
  { title: 'before its record is copied', hold: 'holdBefore', text: 'audit_records', outbox: 1, records: 0 },
  {
    title: 'before it learns that its record is copied',
    hold: 'holdAfter',
    text: 'audit_records',
    outbox: 1,
    records: 1,
  },
  { title: 'before the outbox is emptied', hold: 'holdBefore', text: 'withOutbox', outbox: 1, records: 1 },
  { title: 'before it learns that the outbox is empty', hold: 'holdAfter', text: 'withOutbox', outbox: 0, records: 1 },
] as const;

for (const { title, hold, text, ...left } of points) {
  mongoTest(`a process that ends ${title} leaves a change with one record`, async (t) => {
    await using home = await createHome();
    await using proxy = await startTcpProxy(home.primary);
    await using store = await home.open();
    await using ending = openMongoStore(urlThrough(proxy.port, home.url), {
      log: { warn() {} },
      limits: patientLimits,
    });
    t.like(await ending.accounts.changeAccount('user:ann', suspend), { suspended: true });
    t.deepEqual(await countIn(home), { outbox: 1, records: 0 });

    const reached = proxy[hold](text);
    const copying = failsWith(t, 'SERVICE_UNAVAILABLE', ending.audit.copyAudit('user:ann'));
    await reached;
    await ending[Symbol.asyncDispose]();
    await copying;
    t.deepEqual(await countIn(home), left);
    await isWhole(t, store, home);
  });
}

for (const hold of ['holdBefore', 'holdAfter'] as const) {
  const where = hold === 'holdBefore' ? 'before' : 'after';
  mongoTest(`a change that is cut off ${where} the write has a record if it was made`, async (t) => {
    await using home = await createHome();
    await using proxy = await startTcpProxy(home.primary);
    await using store = await home.open();
    const { account } = await mint(store, 'user:ann');
    await store.audit.copyAudit('user:ann'); // that of the key
    await using ending = openMongoStore(urlThrough(proxy.port, home.url), {
      log: { warn() {} },
      limits: patientLimits,
    });
    await ending.ping();
    const reached = proxy[hold]('withOutbox');
    const changing = failsWith(t, 'SERVICE_UNAVAILABLE', ending.accounts.changeAccount('user:ann', suspend));
    await reached;
    await ending[Symbol.asyncDispose]();
    await changing;

    if (hold === 'holdAfter') {
      await isWhole(t, store, home);
    } else {
      t.deepEqual(await store.accounts.findAccount('user:ann'), account);
      t.deepEqual(await store.audit.listAudit({ kind: 'account', limit: 10 }), []);
    }
  });
}

mongoTest('a record is one document, and the searched fields are indexed', async (t) => {
  await using home = await createHome();
  await using store = await home.open();
  await store.accounts.changeAccount('user:ann', suspend);
  await store.audit.copyAudit('user:ann');
  const [record] = await store.audit.listAudit({ limit: 1 });
  const { id: _id = '', ...fields } = record ?? {};
  const found = await home.database.collection<{ _id: string }>('audit_records').find().toArray();
  t.deepEqual(found, [{ _id, ...fields, revision: 1 }]);
  t.deepEqual(await home.indexes('audit_records'), [
    { key: { account: 1, _id: 1 }, unique: undefined, sparse: undefined },
    { key: { actor: 1, _id: 1 }, unique: undefined, sparse: undefined },
    { key: { kind: 1, _id: 1 }, unique: undefined, sparse: undefined },
    { key: { account: 1, actor: 1, _id: 1 }, unique: undefined, sparse: undefined },
    { key: { account: 1, kind: 1, _id: 1 }, unique: undefined, sparse: undefined },
    { key: { actor: 1, kind: 1, _id: 1 }, unique: undefined, sparse: undefined },
    { key: { account: 1, actor: 1, kind: 1, _id: 1 }, unique: undefined, sparse: undefined },
  ]);
});

const suspendOf = (id: string) =>
  changeSettings({ settings: { suspended: true }, at: new Date(), by: 'user:olga', unknown: { id, plan: 'free' } });

mongoTest('accounts are copied page by page, and those without waiting records are skipped', async (t) => {
  await using home = await createHome();
  await using store = await home.open();
  const accounts = Array.from({ length: 9 }, (_, index) => `user:${index}`);
  for (const [index, id] of accounts.entries())
    if (index % 3 !== 0) await store.accounts.changeAccount(id, suspendOf(id));
  t.deepEqual(await store.audit.copyAuditAfter('', 4), { copied: 4, last: 'user:5', unreadable: [] });
  t.deepEqual(await store.audit.copyAuditAfter('user:5', 4), { copied: 2, last: undefined, unreadable: [] });
});

mongoTest('an account whose outbox cannot be read does not prevent others from being copied', async (t) => {
  await using home = await createHome();
  await using store = await home.open();
  for (const id of ['user:ann', 'user:bob', 'user:cem']) await store.accounts.changeAccount(id, suspendOf(id));
  const accounts = home.database.collection<{ _id: string }>('accounts');
  await accounts.updateOne({ _id: 'user:bob' }, { $set: { 'outbox.0.at': 5 } });
  t.deepEqual(await store.audit.copyAuditAfter('', 10), { copied: 2, last: undefined, unreadable: ['user:bob'] });
  const copied = await home.database.collection('audit_records').find().toArray();
  t.deepEqual(copied.map(({ account }) => account).sort(), ['user:ann', 'user:cem']);
});
