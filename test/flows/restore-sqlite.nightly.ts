import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { promisify } from 'node:util';
import test from 'ava';
import { readPages } from '../../ingress/documentation/page-list.ts';
import type { Stack } from '../stack/stack.ts';
import { examplesOf } from '../support/documentation/page-examples.ts';
import { provesRestore, type StoreCopy } from './restore.ts';

const run = promisify(execFile);

/** The commands of the page for this purpose. */
function commands(purpose: 'backup' | 'restore'): string {
  const page = readPages().find(({ name }) => name === 'runbooks/backup-and-restore');
  const block = examplesOf(page?.markdown ?? '').find(({ role }) => role === purpose);
  if (block === undefined) throw new Error(`the page has no commands for a ${purpose}`);
  return block.text;
}

function copyBetween(database: string, backup: string) {
  const path = [dirname(process.execPath), process.env.PATH ?? ''].join(':');
  const follow = async (purpose: 'backup' | 'restore') => {
    await run('bash', ['-e', '-c', commands(purpose)], { env: { PATH: path, DATABASE: database, BACKUP: backup } });
  };
  return { save: () => follow('backup'), restore: () => follow('restore') };
}

function copyOf({ databaseUrl, directory }: Stack): StoreCopy {
  return copyBetween(databaseUrl.replace(/^sqlite:/, ''), join(directory, 'backup', 'inference.db'));
}

test('a service with SQLite continues from a backup that was made while it ran, by the documented commands', (t) =>
  provesRestore(t, { copy: copyOf }));

test('the documented commands can be repeated, also into an existing folder, and work without files of batches', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'inference-backup-'));
  t.teardown(() => rm(folder, { recursive: true }));
  const [database, backup] = [join(folder, 'inference.db'), join(folder, 'backup', 'inference.db')];
  new DatabaseSync(database).close();
  const copy = copyBetween(database, backup);
  await copy.save();
  await copy.restore();
  t.false(existsSync(`${database}-files`));
  await mkdir(`${database}-files`);
  await writeFile(join(`${database}-files`, 'file_1'), 'line');
  for (let times = 0; times < 2; times++) {
    await copy.save();
    await copy.restore();
  }
  t.deepEqual(await readdir(`${database}-files`), ['file_1']);
  t.is(await readFile(join(`${backup}-files`, 'file_1'), 'utf8'), 'line');
});
