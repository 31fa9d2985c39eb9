import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readdir, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { findProgram } from '../../stack/install-by-apt.ts';

export type Programs = { prometheus: string; promtool: string };

const run = promisify(execFile);
const cache = fileURLToPath(new URL('../../../node_modules/.cache', import.meta.url));
const unpacked = join(cache, 'prometheus');
const withinMs = 300_000;

/**
 * Prometheus and promtool of this machine, or else those of Debian's package. It is unpacked and not installed: an installed one would run
 * as a service. Throws if neither can be had.
 */
export async function providePrometheus(): Promise<Programs> {
  const [prometheus, promtool] = await Promise.all(['prometheus', 'promtool'].map(findProgram));
  if (prometheus !== undefined && promtool !== undefined) return { prometheus, promtool };
  if (!existsSync(unpacked)) await unpack();
  return { prometheus: join(unpacked, 'usr/bin/prometheus'), promtool: join(unpacked, 'usr/bin/promtool') };
}

async function unpack(): Promise<void> {
  await mkdir(cache, { recursive: true });
  const folder = await mkdtemp(join(cache, 'prometheus-'));
  try {
    const download = () => run('apt-get', ['download', 'prometheus'], { cwd: folder, timeout: withinMs });
    await download().catch(async () => {
      await run('apt-get', ['update', '-q'], { timeout: withinMs }); // the usual reason: missing or old package lists
      await download();
    });
    const [archive = ''] = (await readdir(folder)).filter((name) => name.endsWith('.deb'));
    await run('dpkg-deb', ['-x', join(folder, archive), join(folder, 'root')], { timeout: withinMs });
    await rename(join(folder, 'root'), unpacked);
  } catch (cause) {
    throw new Error('Prometheus is missing, and apt could not download it: install prometheus.', { cause });
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
