import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import test from 'ava';
import { greetStore, openStore } from '../../shared/open-store.ts';
import { RefusedSchema, storeUnavailable } from '../../shared/store/adapters/store-errors.ts';
import { MongoStore } from '../../shared/store/mongo/mongo-store.ts';
import { SqliteStore } from '../../shared/store/sqlite/sqlite-store.ts';
import type { Store } from '../../shared/store/store.ts';
import { recordedLog } from '../support/recorded-log.ts';

const parts = { log: { warn() {} } };

test('sqlite:<file> is opened at once, absolute or relative to the working directory', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'open-store-'));
  t.teardown(() => rm(folder, { recursive: true, force: true }));
  for (const file of [join(folder, 'a.db'), relative(process.cwd(), join(folder, 'b.db'))]) {
    await using store = await openStore(`sqlite:${file}`, parts);
    t.true(store instanceof SqliteStore);
    await t.notThrowsAsync(store.ping());
  }
});

test('mongodb:// and mongodb+srv:// are connected on first use', async (t) => {
  for (const url of [
    'mongodb://nowhere.invalid/keys',
    'mongodb://a.invalid,b.invalid/keys?replicaSet=rs0',
    'mongodb+srv://nowhere.invalid/keys',
  ]) {
    await using store = await openStore(url, parts);
    t.true(store instanceof MongoStore);
  }
});

test('any other address is rejected with a message that does not repeat it', async (t) => {
  const refused: [string, RegExp][] = [
    ['postgres://me:secret@host/keys', /must be mongodb:/],
    ['secret', /must be mongodb:/],
    ['', /must be mongodb:/],
    ['sqlite:', /must be mongodb:/],
    ['sqlite://secret/keys.db', /must be mongodb:/],
    ['sqlite::memory:', /must name a file/],
    ['mongodb://me:secret@host', /must name a database/],
    ['mongodb://me:secret@host/', /must name a database/],
    ['mongodb://me:secret@host/?replicaSet=rs0', /must name a database/],
    ['mongodb://me:se@cret@host/keys', /[Ii]nvalid|unescaped/],
  ];
  for (const [url, message] of refused) {
    const error = await t.throwsAsync(openStore(url, parts), { message }, url);
    t.false(/secret|cret@/.test(error.message), url);
  }
});

test('a start waits for no store that is away, and ends with a store of another schema', async (t) => {
  const { log, lines } = recordedLog();
  const failing = (cause: Error) => ({ describe: () => Promise.reject(storeUnavailable(cause)) }) as Partial<Store>;
  await greetStore(failing(new Error('away')) as Store, log);
  t.is(lines.length, 1);
  const refused = new RefusedSchema({ found: 7, expected: 1 });
  await t.throwsAsync(greetStore(failing(refused) as Store, log), {
    is: refused,
    message: /^the store has schema 7, and this version uses schema 1\. Run the version that created the store/,
  });
  t.is(lines.length, 1);
});
