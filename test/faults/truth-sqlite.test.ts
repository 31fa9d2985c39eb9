import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import test from 'ava';
import { patiently } from '../../shared/store/sqlite-patience.ts';
import { testTruth } from './truth.ts';

testTruth({
  test,
  requests: 2_000,
  async openHome(parts) {
    const folder = await mkdtemp(join(tmpdir(), 'truth-'));
    parts.defer(() => rm(folder, { recursive: true, force: true }));
    const file = join(folder, 'store.sqlite');
    const lock = new DatabaseSync(file);
    parts.defer(() => lock.close());
    return {
      url: `sqlite:${file}`,
      directUrl: `sqlite:${file}`,
      // Who reads goes on; every writer needs this lock.
      cut: () => patiently(() => lock.exec('BEGIN IMMEDIATE')),
      restore: () => lock.exec('ROLLBACK'),
    };
  },
});
