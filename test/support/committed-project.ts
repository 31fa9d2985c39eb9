import { execFile } from 'node:child_process';
import { cp } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { projectFiles } from './source-files.ts';

const run = promisify(execFile);
const root = fileURLToPath(new URL('../..', import.meta.url));
const settings = ['user.name=a', 'user.email=a@example.com', 'commit.gpgsign=false'].flatMap((each) => ['-c', each]);

/** Runs git as a person who exists only here. */
export const git = (cwd: string, ...args: string[]) => run('git', [...settings, ...args], { cwd });

/** Copies the files of this project, as they are on this disk, into a repository of their own, and commits them. */
export async function commitProject(folder: string): Promise<void> {
  for (const file of projectFiles()) await cp(join(root, file), join(folder, file), { verbatimSymlinks: true });
  await git(folder, 'init', '--quiet');
  await git(folder, 'add', '--all');
  await git(folder, 'commit', '--quiet', '--message', 'all');
}
