import { execFile } from 'node:child_process';
import { cp, mkdir, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import test from 'ava';
import { readPages } from '../../ingress/documentation/page-list.ts';
import type { Stack } from '../stack/stack.ts';
import { examplesOf } from '../support/documentation/page-examples.ts';
import { provesRestore, type StoreCopy } from './restore.ts';

const run = promisify(execFile);

/** The commands of the page. */
function commands(): string {
  const page = readPages().find(({ name }) => name === 'runbooks/backup-and-restore');
  const block = examplesOf(page?.markdown ?? '').find(({ role }) => role === 'backup');
  if (block === undefined) throw new Error('the page has no commands for a backup');
  return block.text;
}

function copyOf({ databaseUrl, directory }: Stack): StoreCopy {
  const database = databaseUrl.replace(/^sqlite:/, '');
  const backup = join(directory, 'backup', 'inference.db');
  const path = [dirname(process.execPath), process.env.PATH ?? ''].join(':');
  return {
    async save() {
      await mkdir(dirname(backup));
      await run('bash', ['-e', '-c', commands()], { env: { PATH: path, DATABASE: database, BACKUP: backup } });
    },
    async restore() {
      for (const suffix of ['', '-wal', '-shm', '-files'])
        await rm(`${database}${suffix}`, { recursive: true, force: true });
      await cp(backup, database);
      await cp(`${backup}-files`, `${database}-files`, { recursive: true });
    },
  };
}

test('a service with SQLite continues from a backup that was made while it ran, by the documented commands', (t) =>
  provesRestore(t, { copy: copyOf }));
