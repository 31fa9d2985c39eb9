import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import type { Stack } from '../stack/stack.ts';

/** The remaining files of a stack's own store: the records with their state, and the files in their folder, complete or not. */
export function filesLeft({ directory }: Stack): { records: string[]; folder: string[] } {
  using database = openReadOnly(join(directory, 'store.sqlite'));
  const rows = database.handle.prepare("SELECT id, document ->> '$.state' AS state FROM files ORDER BY id").all();
  const folder = join(directory, 'store.sqlite-files');
  return {
    records: rows.map(({ id, state }) => `${id} ${state}`),
    folder: existsSync(folder) ? readdirSync(folder).sort() : [],
  };
}

function openReadOnly(path: string): Disposable & { handle: DatabaseSync } {
  const handle = new DatabaseSync(path, { readOnly: true });
  return { handle, [Symbol.dispose]: () => handle.close() };
}
