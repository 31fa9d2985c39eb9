import { DatabaseSync } from 'node:sqlite';
import { BSON, type Document } from 'mongodb';
import { mintGuestKey, mintKey } from '../../ingress/authentication/change-keys.ts';
import { changeSettings } from '../../shared/account-changes/change-settings.ts';
import { entryOf } from '../../shared/jobs/usage-outbox.ts';
import type { Store } from '../../shared/store/records/store.ts';
import type { UsageRecord } from '../../shared/store/usage/usage-record.ts';
import type { ItemBytes } from '../../workers/memory/item-bytes.ts';
import { resultOf } from '../shared/store/batch-records.ts';
import { createSqliteHome } from '../shared/store/sqlite-home.ts';
import type { createMongoHome } from '../support/mongodb/mongo-home.ts';
import { bodyOf, newAccount, newDevice, newKey, newReport, newRequest, plan } from './typical.ts';

type Items = ItemBytes['sqlite'];
/** The bytes of each table or collection with its indexes, and its rows. */
type Sizes = Map<string, { bytes: number; rows: number }>;
type Measured = { store: Store; sizes: () => Promise<Sizes> };

const kibibyte = 1_024;
const [smallBody, largeBody] = [kibibyte, 9 * kibibyte];
const accountTables = ['accounts', 'accounts_byKeyHash', 'accounts_byKeyId', 'accounts_byKeyStart'];
const day = new Date('2026-12-05T10:11:12.345Z');

/** By the pages of the file, which holds `count` items. */
export async function measureSqlite(): Promise<Items> {
  return measureStores(2_000, async (measure) => {
    await using home = await createSqliteHome();
    await using store = await home.open();
    return await measure({ store, sizes: async () => sizesOfFile(home.file) });
  });
}

/** By the BSON of documents and of the values in their indexes. The server compresses both on disk. */
export async function measureMongo(openHome: () => ReturnType<typeof createMongoHome>): Promise<Items> {
  return measureStores(100, async (measure) => {
    await using home = await openHome();
    await using store = await home.open();
    return await measure({ store, sizes: () => sizesOfDatabase(home.database) });
  });
}

type WithStore = <Result>(measure: (measured: Measured) => Promise<Result>) => Promise<Result>;

async function measureStores(count: number, withStore: WithStore): Promise<Items> {
  const rowsOf = (tables: readonly string[], fill: (store: Store, index: number) => Promise<unknown>) =>
    withStore(async ({ store, sizes }) => {
      const before = await sizes();
      for (let index = 0; index < count; index++) await fill(store, index);
      return bytesOf(await sizes(), before, tables);
    });
  const result = (bytes: number) =>
    rowsOf(['batch_results'], (store, index) =>
      store.batches.insertResults([resultOf('batch_01J00000000000000000000000', index + 1, { body: bodyOf(bytes) })]),
    );
  const perKibibyte = ((await result(largeBody)) - (await result(smallBody))) / ((largeBody - smallBody) / kibibyte);
  return {
    account: { bytes: await rowsOf(accountTables, mintOne) },
    device: { bytes: await rowsOf(accountTables, mintDevice) },
    auditRecord: { bytes: await rowsOf(['audit_records'], auditOne) },
    batchResult: { bytes: (await result(smallBody)) - perKibibyte * (smallBody / kibibyte), perKibibyte },
    ...(await withStore(async ({ store, sizes }) => measureUsage({ store, sizes, count }))),
  };
}

/** One request of each account, so that each has a total and a detail. */
async function measureUsage({ store, sizes, count }: Measured & { count: number }) {
  const before = await sizes();
  const records = Array.from({ length: count }, (_, index) => recordOf(index));
  for (let from = 0; from < count; from += 100) await store.usage.recordUsage(records.slice(from, from + 100));
  const after = await sizes();
  const of = (...tables: string[]) => ({ bytes: bytesOf(after, before, tables, count) });
  return {
    usageRecord: of('usage_records'),
    usageDetail: of('usage_days'),
    usageHour: of('usage_hours'),
    usageTotal: of('usage_sums'),
  };
}

function bytesOf(after: Sizes, before: Sizes, tables: readonly string[], rows?: number): number {
  const found = tables.map((table) => ({
    bytes: (after.get(table)?.bytes ?? 0) - (before.get(table)?.bytes ?? 0),
    rows: after.get(table)?.rows ?? 0,
  }));
  return found.reduce((sum, { bytes }) => sum + bytes, 0) / (rows ?? found[0]?.rows ?? Number.NaN);
}

async function mintOne(store: Store): Promise<void> {
  const account = newAccount();
  await store.accounts.changeAccount(account, mintKey({ account, plan, key: newKey() }));
}

async function mintDevice(store: Store): Promise<void> {
  const account = newDevice();
  const guest = { secret: 'a1b2c3d4', pepper: 'e5f6a7b8' };
  const mint = { account, plan: 'guest-device', key: newKey(), guest };
  await store.accounts.changeAccount(
    account,
    mintGuestKey(mint, () => true),
  );
}

async function auditOne(store: Store): Promise<void> {
  const account = newAccount();
  const settings = { suspended: true };
  const origin = { address: '198.51.100.7', reason: 'The invoice of November is open.' };
  await store.accounts.changeAccount(
    account,
    changeSettings({ settings, at: day, by: newAccount(), origin, unknown: { id: account, plan } }),
  );
  await store.audit.copyAudit(account);
}

function recordOf(index: number): UsageRecord {
  const { endedRuns: _, ...report } = newReport();
  const times = { admittedAt: day, settledAt: new Date(day.getTime() + 7_000), month: '2026-12' };
  const entry = entryOf(`${1_796_000_000_000 + index}-0`);
  return {
    ...report,
    ...times,
    requestId: newRequest(),
    account: newAccount(),
    runs: 1,
    chargedTokens: 1_690,
    overage: false,
    entry,
  };
}

function sizesOfFile(file: string): Sizes {
  using database = new DatabaseSync(file, { timeout: 5_000 });
  database.exec('PRAGMA wal_checkpoint(TRUNCATE)');
  const rows = database
    .prepare(
      `SELECT tbl_name AS name, sum(pgsize) AS bytes FROM dbstat JOIN sqlite_schema USING (name) GROUP BY tbl_name`,
    )
    .all();
  return new Map(
    rows.map(({ name, bytes }) => {
      const [counted] = database.prepare(`SELECT count(*) AS rows FROM "${name}"`).all();
      return [String(name), { bytes: Number(bytes), rows: Number(counted?.rows) }];
    }),
  );
}

async function sizesOfDatabase(database: Awaited<ReturnType<typeof createMongoHome>>['database']): Promise<Sizes> {
  const sizes: Sizes = new Map();
  for (const { name } of await database.listCollections().toArray()) {
    const collection = database.collection(name);
    const indexes = await collection.indexes();
    const documents = await collection.find({}).toArray();
    const bytes = documents.map((document) => {
      const ofIndexes = indexes.map(({ key, sparse }) => indexBytes(document, Object.keys(key), sparse === true));
      return BSON.calculateObjectSize(document) + ofIndexes.reduce((sum, each) => sum + each, 0);
    });
    sizes.set(name, { bytes: bytes.reduce((sum, each) => sum + each, 0), rows: documents.length });
  }
  return sizes;
}

/** The values of one entry, and the id of its document, which takes 8 bytes. */
function indexBytes(document: Document, paths: readonly string[], isSparse: boolean): number {
  const values = paths.map((path) => valueAt(document, path.split('.')));
  if (isSparse && values.every((value) => value === undefined)) return 0;
  const emptyObject = 5;
  return values.reduce<number>((sum, value) => sum + BSON.calculateObjectSize({ '': value ?? null }) - emptyObject, 8);
}

function valueAt(value: unknown, path: readonly string[]): unknown {
  const [name, ...rest] = path;
  if (name === undefined || value === undefined || value === null) return value;
  return valueAt((value as Record<string, unknown>)[name], rest); // BSON documents are objects
}
