import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test from 'ava';
import { MongoClient } from 'mongodb';
import { makeKey, maskKey } from '../../../ingress/authentication/api-key.ts';
import { canary, fullKeysIn, requireNoFullKeys } from '../../stack/search-keys.ts';
import { startStack } from '../../stack/stack.ts';
import { openMongoTests } from '../mongodb/mongo-tests.ts';
import { databaseUrl } from '../mongodb/start-mongo.ts';

const { server, mongoTest } = await openMongoTests(test);

test('a full key is found in any surrounding text, and look-alikes are not', (t) => {
  const key = makeKey();
  for (const text of [key, `"${key}"`, `\\n${key}x`, `Bearer%20${key}`]) t.deepEqual(fullKeysIn(text), [key]);
  for (const text of [maskKey(key), key.slice(0, -1), `svc_${'a'.repeat(38)}`]) t.deepEqual(fullKeysIn(text), []);
});

test('a key left in a file at any depth, or in a log, is found', async (t) => {
  const directory = await mkdtemp(join(tmpdir(), 'search-keys-'));
  t.teardown(() => rm(directory, { recursive: true, force: true }));
  const said = (errors: string, logs: object[] = []) => [{ pid: 7, logs, errors: () => errors }] as never;
  await t.notThrowsAsync(requireNoFullKeys({ directory, processes: said('nothing') }));
  await t.throwsAsync(requireNoFullKeys({ directory, processes: said(makeKey()) }), {
    message: /the log of process 7/,
  });
  await t.throwsAsync(requireNoFullKeys({ directory, processes: said('', [{ msg: makeKey() }]) }), {
    message: /the log of process 7/,
  });
  for (const text of [canary, 'a pepper']) {
    const processes = said('', [{ err: { message: `the command set ${text}` } }]);
    const remains = { directory, processes, secrets: () => ['a pepper'] };
    await t.throwsAsync(requireNoFullKeys(remains), { message: /the log of process 7/ });
  }
  await writeFile(join(directory, 'data.bin'), Buffer.concat([Buffer.from([0xff, 0]), Buffer.from(makeKey())]));
  await t.throwsAsync(requireNoFullKeys({ directory, processes: [] }), { message: /data\.bin/ });
  await writeFile(join(directory, 'data.bin'), `${'x'.repeat(4_194_304 - 20)}${makeKey()}`);
  await t.throwsAsync(requireNoFullKeys({ directory, processes: [] }), { message: /data\.bin/ }, 'between two pieces');
});

test('a stack with a leaked key reports it when it ends', async (t) => {
  const stack = await startStack({ workers: 0 });
  await writeFile(join(stack.directory, 'left-behind'), await stack.mintKey('alice'));
  const error = await t.throwsAsync(async () => stack[Symbol.asyncDispose]());
  t.regex(String(error?.message), /left-behind/);
});

mongoTest('a key left in a MongoDB is found, and none without one', async (t) => {
  const url = databaseUrl(server().url, `search_${process.pid}`);
  const directory = await mkdtemp(join(tmpdir(), 'search-keys-'));
  t.teardown(() => rm(directory, { recursive: true, force: true }));
  const search = () => requireNoFullKeys({ directory, processes: [], databaseUrl: url });
  await using client = new MongoClient(url);
  const accounts = client.db().collection('accounts');
  await accounts.insertOne({ plan: 'free', key: { display: maskKey(makeKey()) } });
  await t.notThrowsAsync(search());
  await accounts.insertOne({ deep: [{ inside: `a ${makeKey()}` }] });
  await t.throwsAsync(search(), { message: /the collection accounts/ });
  await client.db().dropDatabase();
});
