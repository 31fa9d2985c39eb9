import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import test from 'ava';

const preload = fileURLToPath(new URL('without-disk-sync.ts', import.meta.url));

for (const sync of ['sync', 'datasync']) {
  /** Node refuses it, because the file is closed. */
  const script = `const file = await (await import('node:fs/promises')).open('/dev/null'); await file.close(); await file.${sync}();`;

  test(`with the preload, a process does not wait for the disk: ${sync}`, async (t) => {
    const run = (...flags: string[]) =>
      promisify(execFile)(process.execPath, [...flags, '--input-type=module', '--eval', script]);
    await t.throwsAsync(run(), { message: /EBADF/ });
    await t.notThrowsAsync(run('--import', preload));
  });
}
