import { execFile } from 'node:child_process';
import { mkdtemp, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import type { Charge } from '../../shared/limits/admit.ts';
import type { LimitScripts } from './limits-side.ts';

/** The last commit of the previous release. */
const commit = '2451abe5db45cfc24696587a2946932fe229fdc2';

const run = promisify(execFile);
const root = fileURLToPath(new URL('../..', import.meta.url));
const git = (...words: string[]) => run('git', words, { cwd: root });

/** The code of the previous release, from the history of this clone, with the packages of this version. */
export async function openPreviousRelease(): Promise<AsyncDisposable & { root: string }> {
  const directory = await mkdtemp(join(tmpdir(), 'inference-release-'));
  const remove = () => rm(directory, { recursive: true, force: true });
  try {
    const archive = join(directory, 'release.tar');
    const pack = () => git('archive', '--output', archive, commit, 'ingress', 'workers', 'shared', 'package.json');
    // A shallow clone has only its last commits.
    await pack().catch(() => git('fetch', '--quiet', '--unshallow').then(pack));
    await run('tar', ['-xf', archive, '-C', directory]);
    await symlink(join(root, 'node_modules'), join(directory, 'node_modules'));
  } catch (error) {
    await remove();
    throw new Error(`the previous release needs commit ${commit}: fetch the complete history`, { cause: error });
  }
  return { root: directory, [Symbol.asyncDispose]: remove };
}

/** The functions that load the limit scripts of that release. */
export async function loadLimitScripts({ root: release }: { root: string }): Promise<LimitScripts> {
  const files = ['admit', 'start', 'mark-streaming', 'settle', 'release', 'end-leases', 'seed'];
  const modules = await Promise.all(files.map((name) => import(join(release, `shared/limits/${name}.ts`))));
  const scripts = Object.assign({}, ...modules);
  const createAdmit = (...options: unknown[]) => {
    const admission = scripts.createAdmit(...options);
    // As they were called, and given, in that release.
    const admit = (look: unknown, { report, ...charge }: Charge) =>
      admission.admit(look, { ...charge, report: JSON.stringify(report) });
    return { ...admission, admit, readCounters: admission.stand };
  };
  return { ...scripts, createAdmit } as LimitScripts; // with the names of that release
}
