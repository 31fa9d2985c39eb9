import { execFile } from 'node:child_process';
import { mkdtemp, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import type { LimitScripts } from './limits-side.ts';

/** The last commits of releases. */
const commits = {
  previous: 'c740f3fc67abad01ad09ca1ca2d82a0105bb26ad',
  /** Its stores have no details of usage. A store may not be migrated yet. */
  'before details': 'd54c39603cc6baed83d2c6af8ca29c49ccbbbf1b',
} as const;

export type ReleaseName = keyof typeof commits;

const run = promisify(execFile);
const root = fileURLToPath(new URL('../..', import.meta.url));
const git = (...words: string[]) => run('git', words, { cwd: root });

/** The code of an earlier release, from the history of this clone, with the packages of this version. */
export async function openRelease(name: ReleaseName): Promise<AsyncDisposable & { root: string }> {
  const commit = commits[name];
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
    throw new Error(`the release needs commit ${commit}: fetch the complete history`, { cause: error });
  }
  return { root: directory, [Symbol.asyncDispose]: remove };
}

/** The functions that load the limit scripts of that release, under the names that they have there. */
export async function loadLimitScripts({ root: release }: { root: string }): Promise<LimitScripts> {
  const files = [
    ...['admit', 'settle', 'release', 'seeding/seed'].map((name) => `shared/limits/${name}.ts`),
    ...['start-run', 'mark-streaming', 'end-leases'].map((name) => `workers/leases/${name}.ts`),
  ];
  const modules = await Promise.all(files.map((file) => import(join(release, file))));
  return Object.assign({}, ...modules); // as `LimitScripts` has them
}
