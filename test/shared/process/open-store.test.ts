import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import test from 'ava';
import { greetStore, openStore } from '../../../shared/process/open-store.ts';
import { refusedSchema, storeUnavailable } from '../../../shared/store/documents.ts';
import { recordedLog } from '../../support/recorded-log.ts';

const parts = { log: { warn() {} } };

test('sqlite:<file> is opened at once, absolute or relative to the working directory', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'open-store-'));
  t.teardown(() => rm(folder, { recursive: true, force: true }));
  for (const file of [join(folder, 'a.db'), relative(process.cwd(), join(folder, 'b.db'))]) {
    await using store = await openStore(`sqlite:${file}`, parts);
    t.regex(await store.describe(), /^sqlite /);
  }
});

test('mongodb:// and mongodb+srv:// are connected on first use', async (t) => {
  for (const url of [
    'mongodb://nowhere.invalid/keys',
    'mongodb://a.invalid,b.invalid/keys?replicaSet=rs0',
    'mongodb+srv://nowhere.invalid/keys',
  ]) {
    await using store = await openStore(url, parts);
    await t.throwsAsync(store.ping(), { code: 'SERVICE_UNAVAILABLE' });
  }
});

test('any other address is rejected with a message that does not repeat it', async (t) => {
  const refused: [string, RegExp][] = [
    ['postgres://me:secret@host/keys', /^DATABASE_URL: it must be mongodb:/],
    ['secret', /^DATABASE_URL: it must be mongodb:/],
    ['', /^DATABASE_URL: it must be mongodb:/],
    ['sqlite:', /^DATABASE_URL: it must be mongodb:/],
    ['sqlite://secret/keys.db', /^DATABASE_URL: it must be mongodb:/],
    ['sqlite::memory:', /^DATABASE_URL: it must name a file/],
    ['mongodb://me:secret@host', /^DATABASE_URL: it must name a database/],
    ['mongodb://me:secret@host/', /^DATABASE_URL: it must name a database/],
    ['mongodb://me:secret@host/?replicaSet=rs0', /^DATABASE_URL: it must name a database/],
    ['mongodb://me:se@cret@host/keys', /[Ii]nvalid|unescaped/],
  ];
  for (const [url, message] of refused) {
    const error = await t.throwsAsync(openStore(url, parts), { message }, url);
    t.false(/secret|cret@/.test(error.message), url);
  }
});

test('a SQLite file that cannot be opened is named, for the operator', async (t) => {
  const error = await t.throwsAsync(openStore('sqlite:/dev/null/store.sqlite', parts), { name: 'StartError' });
  t.regex(error.message, /^DATABASE_URL: The database \/dev\/null\/store\.sqlite cannot be opened: EEXIST/);
});

/** The first call of a store at this address, which fails with this error of its driver. */
async function greet(cause: Error) {
  const { log, lines } = recordedLog();
  const store = { describe: () => Promise.reject(storeUnavailable(cause)) };
  await greetStore(store, 'mongodb://me:secret@db-1:27017,db-2:27017/keys', log);
  return lines;
}

test('a store that cannot be reached is named with its setting and addresses, without password and stack', async (t) => {
  const refused = Object.assign(new Error('connect'), { code: 'ECONNREFUSED' });
  const message =
    'DATABASE_URL: the store at db-1:27017,db-2:27017 cannot be used (ECONNREFUSED); the next call retries. Start it, or correct the setting';
  t.deepEqual(await greet(new Error('no server', { cause: refused })), [{ level: 'warn', fields: {}, message }]);
});

test('a store that refuses the user or the password ends the start', async (t) => {
  await t.throwsAsync(greet(Object.assign(new Error('Authentication failed.'), { code: 18 })), {
    name: 'StartError',
    message: 'DATABASE_URL: the store at db-1:27017,db-2:27017 refuses the user or the password. Correct DATABASE_URL.',
  });
});

test('a store of another schema ends the start, with both numbers and what to do', async (t) => {
  await t.throwsAsync(greet(refusedSchema({ found: 7, expected: 1 })), {
    name: 'StartError',
    message:
      /^DATABASE_URL: the store at db-1:27017,db-2:27017: the store has schema 7, and this version uses schema 1\. Run the version that created the store/,
  });
});
