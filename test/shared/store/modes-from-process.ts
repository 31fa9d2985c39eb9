import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { openSqliteStore } from '../../../shared/store/sqlite/sqlite-store.ts';

/** Creates a store and a file in it, in a separate process with an empty umask. Prints the mode of each path. */
const [folder = '', id = ''] = process.argv.slice(2);
process.umask(0);

async function modes(): Promise<Record<string, string>> {
  const paths = await readdir(folder, { recursive: true });
  const entries = paths.map(async (path) => {
    const { mode } = await stat(join(folder, path));
    return [path.replace(id, 'file').replace(/[0-9a-f-]{36}/, 'random'), (mode & 0o777).toString(8)] as const;
  });
  return Object.fromEntries(await Promise.all(entries));
}

await using store = await openSqliteStore(join(folder, 'a/b/store.db'));
let halfWay = {};
async function* source() {
  yield Buffer.alloc(1_000_000);
  halfWay = await modes();
}
await store.files.write(id, source());
process.stdout.write(JSON.stringify({ halfWay, atTheEnd: await modes() }));
