import { mkdtemp, rm, statfs } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const memory = '/dev/shm';
/** More than four times what a run has needed. */
const bytesMin = 2 ** 29;

/**
 * A folder for the temporary files of a run, removed after it. It is in memory if there is room for it: a test that waits for a busy disk
 * would measure the disk.
 */
export async function openTemporaryFolder(): Promise<AsyncDisposable & { path: string; isOnDisk: boolean }> {
  const isOnDisk = !(await hasRoom());
  const path = await mkdtemp(join(isOnDisk ? tmpdir() : memory, 'tests-'));
  return { path, isOnDisk, [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }) };
}

async function hasRoom(): Promise<boolean> {
  return statfs(memory).then(
    ({ bavail, bsize }) => bavail * bsize >= bytesMin,
    () => false,
  );
}
