import { execFile } from 'node:child_process';
import { readdir, stat, writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import test from 'ava';
import fc from 'fast-check';
import { ulid } from 'ulid';
import { inBlocks } from '../../../shared/store/file-store.ts';
import { inChunks } from './file-bytes.ts';
import { testFilesContract, testLargeFilesContract } from './files-contract.ts';
import { createSqliteHome } from './sqlite-home.ts';
import { failsWith } from './store-contract.ts';

testFilesContract({ test, createHome: createSqliteHome });
testLargeFilesContract({ test: test.serial, createHome: createSqliteHome });

const run = promisify(execFile);
const newFile = () => `file-${ulid()}`;

test('files are in a folder beside the database, each named by its id', async (t) => {
  await using home = await createSqliteHome();
  await using store = await home.open();
  t.deepEqual(
    await readdir(home.folder),
    ['store.db', 'store.db-shm', 'store.db-wal'],
    'no folder before the first file',
  );
  const id = newFile();
  await store.files.write(id, inChunks(Buffer.from('some bytes'), [3]));
  t.deepEqual(await readdir(`${home.file}-files`), [id]);
});

test('an unfinished file has another name', async (t) => {
  await using home = await createSqliteHome();
  await using store = await home.open();
  const id = newFile();
  const seen: string[][] = [];
  async function* source() {
    yield Buffer.alloc(1_000_000);
    seen.push(await readdir(`${home.file}-files`));
  }
  await store.files.write(id, source());
  t.is(seen[0]?.length, 1);
  t.regex(seen[0]?.[0] ?? '', new RegExp(`^${id}\\.[0-9a-f-]{36}\\.part$`));
});

test('an unusable folder is SERVICE_UNAVAILABLE, and the message does not contain its path', async (t) => {
  await using home = await createSqliteHome();
  await using store = await home.open();
  await writeFile(`${home.file}-files`, 'a file in the place of the folder');
  const id = newFile();
  for (const call of [
    store.files.write(id, inChunks(Buffer.from('some bytes'), [3])),
    store.files.read(id, 0, 1),
    store.files.remove(id),
  ]) {
    const error = await failsWith(t, 'SERVICE_UNAVAILABLE', call);
    t.false(error.message.includes(home.folder));
  }
});

test('files and folders of the store are accessible to their owner only, also with an empty umask', async (t) => {
  await using home = await createSqliteHome();
  const program = fileURLToPath(new URL('./modes-from-process.ts', import.meta.url));
  const { stdout } = await run(process.execPath, [program, home.folder, newFile()]);
  const always = {
    ...{ a: '700', 'a/b': '700', 'a/b/store.db-files': '700' },
    ...{ 'a/b/store.db': '600', 'a/b/store.db-wal': '600', 'a/b/store.db-shm': '600' },
  };
  t.deepEqual(JSON.parse(stdout), {
    halfWay: { ...always, 'a/b/store.db-files/file.random.part': '600' },
    atTheEnd: { ...always, 'a/b/store.db-files/file': '600' },
  });
});

test('a database file that exists keeps its mode', async (t) => {
  await using home = await createSqliteHome();
  await writeFile(home.file, '', { mode: 0o640 });
  await using _store = await home.open();
  t.is((await stat(home.file)).mode & 0o777, 0o640);
});

test('bytes are cut into blocks of one size for any sizes of chunks, and no block is empty', async (t) => {
  const sizes = fc.array(fc.nat(30), { minLength: 1, maxLength: 8 }).filter((all) => all.some((size) => size > 0));
  const property = fc.asyncProperty(
    fc.uint8Array({ maxLength: 200 }),
    sizes,
    fc.integer({ min: 1, max: 40 }),
    hasBlocks,
  );
  await t.notThrowsAsync(fc.assert(property, { numRuns: 500 }));

  async function hasBlocks(given: Uint8Array, chunkSizes: number[], blockBytes: number): Promise<boolean> {
    const bytes = Buffer.from(given);
    const blocks: Buffer[] = [];
    for await (const block of inBlocks(inChunks(bytes, chunkSizes), blockBytes)) blocks.push(Buffer.from(block));
    const areFull = blocks.slice(0, -1).every((block) => block.length === blockBytes);
    const last = blocks.at(-1)?.length;
    return areFull && (last === undefined || (last > 0 && last <= blockBytes)) && bytes.equals(Buffer.concat(blocks));
  }
});
