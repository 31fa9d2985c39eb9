import { once } from 'node:events';
import net, { createServer, type Server, type Socket } from 'node:net';
import type { ExecutionContext } from 'ava';
import test from 'ava';
import { z } from 'zod';
import { createKey, revokeKey } from '../../../../ingress/authentication/change-keys.ts';
import { ApiError } from '../../../../shared/errors.ts';
import { openMongoStore } from '../../../../shared/store/mongo/mongo-store.ts';
import type { Store } from '../../../../shared/store/records/store.ts';
import { freePort } from '../../../stack/free-port.ts';
import { openMongoTests } from '../../../support/mongodb/mongo-tests.ts';
import { untilItWorks } from '../../../support/mongodb/until-it-works.ts';
import { testAccountsContract } from '../accounts-contract.ts';
import { testChangesContract } from '../changes-contract.ts';
import { testKeyUseContract } from '../key-use-contract.ts';
import { testModelContract } from '../model-contract.ts';
import { testNamesContract } from '../names-contract.ts';
import { testRacesContract } from '../races-contract.ts';
import { callEveryMethod, defaultKeyFrom, failsWith, mint, newKey, testStoreContract } from '../store-contract.ts';

const { mongo, server, mongoTest, mongoTestAlone, createHome } = await openMongoTests(test);

mongoTest('the report names the server that the contract was tested on', async (t) => {
  await using home = await createHome();
  await using store = await home.open();
  const description = await store.describe();
  t.log(`${server().description}: ${description}`);
  t.regex(description, /^mongodb \d+\.\d+/);
});

testStoreContract({
  test: mongoTest,
  createHome,
  description: /^mongodb \d+\.\d+\.\d+\S* \((standalone|sharded cluster|replica set \S+)\)$/,
});

const ordersUtf16 = 'url' in mongo && mongo.description.startsWith('mongo-java-server');
testChangesContract({ test: mongoTest, createHome });
testNamesContract({ test: mongoTest, createHome });
testAccountsContract({ test: mongoTest, createHome, ordersUtf16 });
testRacesContract({ test: mongoTestAlone, createHome });
testKeyUseContract({ test: mongoTestAlone, createHome });
testModelContract({ test: mongoTestAlone, createHome });

mongoTest('an account is one document with its key, its history and its last use', async (t) => {
  await using home = await createHome();
  await using store = await home.open();
  const key = newKey();
  await mint(store, 'user:ann', { key });
  await store.accounts.recordKeyUse([{ account: 'user:ann', keyId: key.id, at: new Date(5) }]);
  const audit = { account: 'user:ann', actor: 'user:ann', address: null, reason: null, kind: 'key', at: key.createdAt };
  const accounts = await home.database.collection<{ _id: string; withOutbox: string[] }>('accounts').find().toArray();
  const id = accounts[0]?.withOutbox[0] ?? '';
  t.deepEqual(accounts as object[], [
    {
      _id: 'user:ann',
      plan: 'free',
      suspended: false,
      overageEnabled: false,
      topUpsMade: [],
      version: 1,
      createdAt: key.createdAt,
      keys: [defaultKeyFrom(key)],
      byKeyHash: [key.hash],
      byKeyId: [key.id],
      byKeyStart: [key.display],
      nameStarts: [],
      outbox: [{ id, ...audit, change: { keyMinted: key.id } }],
      withOutbox: [id],
      revision: 1,
      keysCreated: { day: key.createdAt.toISOString().slice(0, 10), count: 1 },
      changes: [{ at: key.createdAt, by: 'user:ann', keyMinted: key.id }],
      keyUses: { [key.id]: new Date(5) },
    },
  ]);
});

mongoTest('the last uses of keys are beside them, and leave the document with them', async (t) => {
  await using home = await createHome();
  await using store = await home.open();
  const keys = [newKey(), newKey()] as const;
  for (const key of keys) {
    const create = createKey({ account: 'user:ann', plan: 'free', key, fields: { name: 'a program' } });
    await store.accounts.changeAccount('user:ann', create);
    await store.accounts.recordKeyUse([{ account: 'user:ann', keyId: key.id, at: new Date(5) }]);
  }
  const uses = async () => (await home.database.collection('accounts').findOne())?.keyUses;
  t.deepEqual(await uses(), { [keys[0].id]: new Date(5), [keys[1].id]: new Date(5) });
  await store.accounts.changeAccount('user:ann', revokeKey({ named: { id: keys[0].id }, at: new Date() }));
  t.deepEqual(await uses(), { [keys[1].id]: new Date(5) });
});

mongoTest('an invalid document is an internal error, neither an unknown key nor an outage', async (t) => {
  await using home = await createHome();
  await using store = await home.open();
  await home.insert({
    _id: 'user:ann',
    plan: 7,
    version: '1',
    keys: [{ id: 'key_1', hash: 'odd' }],
    byKeyHash: ['odd'],
  });
  await t.throwsAsync(store.accounts.findKeyOwner(['odd']), { instanceOf: z.ZodError });
  await t.throwsAsync(store.accounts.findAccount('user:ann'), { instanceOf: z.ZodError });
  await t.throwsAsync(mint(store, 'user:ann'), { instanceOf: z.ZodError });
});

mongoTest('the indexes exist after the first call, whichever it is', async (t) => {
  await using home = await createHome();
  await using store = openMongoStore(home.url, { log: { warn() {} } });
  await untilItWorks(() => store.accounts.findKeyOwner(['unknown']));
  t.deepEqual(await home.indexes(), indexes);
});

mongoTest('a standalone server is warned about once, however often the connection is lost', async (t) => {
  await using home = await createHome();
  await using proxy = await home.startProxy('pass');
  await using store = home.openThrough(proxy);
  await untilItWorks(() => store.ping());
  const standalone = (await store.describe()).endsWith('(standalone)');
  proxy.become('refuse');
  await failsWith(t, 'SERVICE_UNAVAILABLE', store.ping());
  proxy.become('pass');
  await untilItWorks(() => store.ping());
  const aboutIt = home.warnings.map((message) => /standalone/.test(message));
  t.deepEqual(aboutIt, standalone ? [true] : []);
});

test('an unreachable server is SERVICE_UNAVAILABLE', async (t) => {
  const url = `mongodb://127.0.0.1:${await freePort()}/keys`;
  await using store = openMongoStore(url, { log: { warn() {} } });
  const error = await failsMeanwhile(t, store);
  t.notRegex(error.message, /127\.0\.0\.1|keys\b/);
});

test('a name that does not resolve is SERVICE_UNAVAILABLE', async (t) => {
  for (const scheme of ['mongodb', 'mongodb+srv']) {
    await using store = openMongoStore(`${scheme}://nowhere.invalid/keys`, { log: { warn() {} } });
    await failsMeanwhile(t, store);
  }
});

test('a server that accepts and never answers is SERVICE_UNAVAILABLE', async (t) => {
  const mute = createServer((socket) => {
    socket.on('error', () => {});
    socket.resume();
  });
  mute.listen(0, '127.0.0.1');
  await once(mute, 'listening');
  const store = openMongoStore(`mongodb://127.0.0.1:${portOf(mute)}/keys`, { log: { warn() {} } });
  await failsMeanwhile(t, store);
  await store[Symbol.asyncDispose](); // does not wait for it either
  mute.close();
});

test('a call ends at its own limit, whatever the driver still waits for', async (t) => {
  const sockets = new Set<Socket>();
  const mute = createServer((socket) => {
    sockets.add(socket.on('error', () => {}).resume());
  });
  mute.listen(0, '127.0.0.1');
  await once(mute, 'listening');
  const ofDriver = 3_000;
  const limits = { callMs: 100, serverMs: ofDriver, socketMs: ofDriver, writeMs: ofDriver };
  await using store = openMongoStore(`mongodb://127.0.0.1:${portOf(mute)}/keys`, { log: { warn() {} }, limits });
  const { cause } = await failsMeanwhile(t, store);
  t.is(cause instanceof Error ? cause.message : '', 'MongoDB did not answer within 100 ms');
  mute.close();
  for (const socket of sockets) socket.destroy();
});

mongoTest('starts while the server is down, and works when it is up', async (t) => {
  await using home = await createHome();
  await using proxy = await home.startProxy('refuse');
  await using store = home.openThrough(proxy);
  await failsMeanwhile(t, store);

  proxy.become('pass');
  await untilItWorks(() => store.ping());
  t.deepEqual(await home.indexes(), indexes);
  t.true((await mint(store, 'user:ann')).minted);
});

mongoTest(
  'a silent network is SERVICE_UNAVAILABLE while it is silent, and is used again when it is back',
  async (t) => {
    await using home = await createHome();
    await using proxy = await home.startProxy('pass');
    await using store = home.openThrough(proxy);
    const key = newKey();
    await untilItWorks(() => mint(store, 'user:ann', { key }));

    proxy.become('black hole');
    await failsMeanwhile(t, store);
    proxy.become('pass');
    await untilItWorks(() => store.ping());
    await untilItWorks(async () => t.is((await store.accounts.findKeyOwner([key.hash]))?.keyId, key.id));
  },
);

mongoTestAlone('the store recovers after connections are lost during a write', async (t) => {
  const { createConnection } = net;
  t.teardown(() => Object.assign(net, { createConnection }));
  let areLost = false;
  const losing = (options: net.NetConnectOpts) => {
    const socket = createConnection(options);
    const write = socket.write.bind(socket);
    return Object.assign(socket, { write: (bytes: Buffer) => write.call(areLost ? socket.destroy() : socket, bytes) });
  };
  await using home = await createHome();
  await using proxy = await home.startProxy('pass');
  Object.assign(net, { createConnection: losing });
  await using store = home.openThrough(proxy);
  await untilItWorks(() => store.ping());

  proxy.become('refuse');
  await failsWith(t, 'SERVICE_UNAVAILABLE', store.ping());
  areLost = true;
  proxy.become('pass');
  await failsWith(t, 'SERVICE_UNAVAILABLE', store.ping());
  areLost = false;
  await untilItWorks(() => Promise.all(Array.from({ length: 5 }, () => store.ping())));
  const again = home.warnings.filter((line) => line.includes('stopped checking a server'));
  t.is(again.length, 1, 'concurrent calls reconnect once');
});

mongoTestAlone('losing the server during calls fails them, and no key is minted twice', async (t) => {
  await using home = await createHome();
  await using proxy = await home.startProxy('pass');
  await using store = home.openThrough(proxy);
  await untilItWorks(() => store.ping());
  const accounts = Array.from({ length: 200 }, (_, index) => `user:${index}`);
  const first = accounts.map((account) => mint(store, account));
  await Promise.any(first);
  proxy.become('refuse');
  const failures = (await Promise.allSettled(first)).filter((outcome) => outcome.status === 'rejected');
  for (const { reason } of failures) t.true(reason instanceof ApiError && reason.code === 'SERVICE_UNAVAILABLE');

  proxy.become('pass');
  await using patient = await home.open();
  await Promise.all(accounts.map((account) => mint(patient, account)));
  t.deepEqual(await home.database.collection('accounts').distinct('version'), [1]);
  t.is(await home.database.collection('accounts').countDocuments(), accounts.length);
});

const indexes = [
  { key: { byKeyHash: 1 }, unique: true, sparse: true },
  ...['byKeyId', 'byKeyStart', 'byName', 'withOutbox', 'removing'].map((field) => ({
    ...{ key: { [field]: 1 }, unique: undefined, sparse: true },
  })),
];

/** Calls every method at once. Returns one of the failures for a closer check. */
async function failsMeanwhile(t: ExecutionContext, store: Store): Promise<ApiError> {
  const failures = await Promise.all(callEveryMethod(store).map((call) => failsWith(t, 'SERVICE_UNAVAILABLE', call)));
  const [failure] = failures;
  if (failure === undefined) throw new Error('a store has methods');
  return failure;
}

function portOf(server: Server): number {
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('a TCP server has an address with a port');
  return address.port;
}
