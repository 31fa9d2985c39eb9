import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import test from 'ava';

const preload = fileURLToPath(new URL('../stack/without-disk-sync.ts', import.meta.url));
/** The disk would refuse this, because the file is closed. */
const sync =
  "const file = await (await import('node:fs/promises')).open('/dev/null'); await file.close(); await file.datasync();";

test('temporary files on a disk are not synced: a process with the preload does not ask the disk', async (t) => {
  const run = (...flags: string[]) =>
    promisify(execFile)(process.execPath, [...flags, '--input-type=module', '--eval', sync]);
  await t.throwsAsync(run(), { message: /EBADF/ });
  await t.notThrowsAsync(run('--import', preload));
});
