import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { installByApt } from '../../stack/install-by-apt.ts';
import { findPython } from './run-examples.ts';

const advice = 'install python3 and its venv (Debian: apt-get install python3 python3-venv)';

/** Installs Debian's Python if no Python can create an environment and apt is available, then creates the environment of the examples. */
export async function providePython(): Promise<void> {
  if (!(await canMakeEnvironments())) {
    await installByApt({ what: 'Python', packages: ['python3', 'python3-venv'], advice });
  }
  if ((await findPython()) === undefined) throw new Error('The examples in Python cannot be run.');
}

async function canMakeEnvironments(): Promise<boolean> {
  return promisify(execFile)('python3', ['-c', 'import ensurepip, venv'], { timeout: 120_000 }).then(
    () => true,
    () => false,
  );
}
