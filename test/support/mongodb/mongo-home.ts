import { randomUUID } from 'node:crypto';
import { type Db, type Document, MongoClient } from 'mongodb';
import { openMongoStore } from '../../../shared/store/mongo/mongo-store.ts';
import type { Store } from '../../../shared/store/records/store.ts';
import { usageUnits } from '../../../shared/store/usage/usage-tables.ts';
import { type StoreHome, storeTime } from '../../shared/store/store-contract.ts';
import { type Mode, startTcpProxy, type TcpProxy } from '../tcp-proxy.ts';
import { patientLimits } from './open-patient-store.ts';
import { watched } from './sharded-commands.ts';
import { databaseUrl, type MongoServer, type NoMongo, urlThrough } from './start-mongo.ts';

type MongoHome = StoreHome & {
  database: Db;
  warnings: string[];
  insert(document: { _id: string } & Record<string, unknown>): Promise<unknown>;
  /** All indexes except the one on `_id`, of the accounts unless another collection is named. */
  indexes(collection?: string): Promise<unknown[]>;
  /** The address of the server itself. */
  primary: { host: string; port: number };
  startProxy(mode: Mode): Promise<TcpProxy>;
  /** With the time limits of the service. */
  openThrough(proxy: TcpProxy): Store;
};

/** Its own database. */
export async function createMongoHome(mongo: MongoServer | NoMongo): Promise<MongoHome> {
  if ('reason' in mongo) throw new Error(mongo.reason);
  const plainUrl = databaseUrl(mongo.url, `test_${randomUUID()}`);
  const client = new MongoClient(plainUrl); // what a test does itself is not watched
  const url = watched(plainUrl);
  const primary = await findPrimary(client);
  const database = client.db();
  const accounts = database.collection<{ _id: string }>('accounts');
  const warnings: string[] = [];
  const log = { warn: (_fields: object, message: string) => warnings.push(message) };
  const detailNames = usageUnits.map((unit) => `usage_${unit}s`);
  const changeDetails = (update: Document) =>
    Promise.all(detailNames.map((name) => database.collection(name).updateMany({}, update)));
  return {
    url,
    database,
    warnings,
    /** Connected and prepared. */
    async open() {
      const store = openMongoStore(url, { log, limits: patientLimits, now: () => storeTime });
      await store.ping();
      return store;
    },
    insert: (document) => accounts.insertOne(document),
    primary,
    indexes: async (collection = 'accounts') => {
      const all = await database.collection(collection).indexes();
      return all.filter(({ name }) => name !== '_id_').map(({ key, unique, sparse }) => ({ key, unique, sparse }));
    },
    removeSums: () =>
      Promise.all(['usage_sums', ...detailNames].map((name) => database.collection(name).deleteMany({}))),
    spoilSums: () => database.collection('usage_sums').updateMany({}, { $inc: { 'total.chargedTokens': 1 } }),
    removeTotals: () => database.collection('usage_sums').deleteMany({}),
    moveDetails: (lastEntry) => changeDetails({ $set: { lastEntry } }),
    spoilDetails: () => changeDetails({ $inc: { 'counts.cachedTokens': 1 } }),
    async countPieces() {
      const names = ['file_versions', 'file_bytes.files', 'file_bytes.chunks'];
      const counts = await Promise.all(names.map((name) => database.collection(name).countDocuments()));
      return counts.reduce((sum, count) => sum + count, 0);
    },
    startProxy: (mode) => startTcpProxy(primary, mode),
    openThrough: ({ port }) => openMongoStore(urlThrough(port, url), { log }),
    async [Symbol.asyncDispose]() {
      await database.dropDatabase();
      await client.close();
    },
  };
}

/** The address of the primary, for which a proxy can stand in. */
export async function findPrimary(client: MongoClient): Promise<{ host: string; port: number }> {
  let address = '';
  client.on('topologyDescriptionChanged', ({ newDescription }) => {
    address = [...newDescription.servers.values()].find(({ isWritable }) => isWritable)?.address ?? address;
  });
  await client.db().command({ ping: 1 });
  const { hostname, port } = new URL(`tcp://${address}`);
  return { host: hostname, port: Number(port) };
}
