import { execFile } from 'node:child_process';
import { access, constants } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);

/** Enough for `apt-get update` on a slow line, or for another apt that is still running. */
const aptWithinMs = 300_000;

/** Installs programs by apt, from packages that start no service. Throws if apt cannot be used; `advice` then says how to get them. */
export async function installByApt(wanted: { what: string; packages: string[]; advice: string }): Promise<void> {
  const { what, packages, advice } = wanted;
  const asRoot = (await findProgram('apt-get')) === undefined ? undefined : await rootPrefix();
  if (asRoot === undefined) throw new Error(`${what} is missing: ${advice}.`);
  console.error(`${what} is missing; installing ${packages.join(' ')} by apt (programs only, no system service) …`);
  const aptGet = (...args: string[]) => {
    const [command = 'apt-get', ...rest] = [...asRoot, 'env', 'DEBIAN_FRONTEND=noninteractive', 'apt-get', ...args];
    return run(command, rest, { timeout: aptWithinMs });
  };
  const install = () =>
    aptGet('install', '-y', '--no-install-recommends', '-o', 'DPkg::Lock::Timeout=120', ...packages);
  try {
    await install().catch(async () => {
      await aptGet('update', '-q'); // the usual reason: missing or old package lists
      await install();
    });
  } catch (cause) {
    throw new Error(`${what} is missing, and apt could not install it: ${advice}.`, { cause });
  }
}

/** The prefix that runs a command as root without a prompt: nothing, or `sudo -n`. `undefined` if that is refused. */
async function rootPrefix(): Promise<string[] | undefined> {
  if (process.getuid?.() === 0) return [];
  const allowed = await run('sudo', ['-n', 'true'], { timeout: 10_000 }).then(
    () => true,
    () => false,
  );
  return allowed ? ['sudo', '-n'] : undefined;
}

/** The first executable of this name on the path. */
export async function findProgram(name: string): Promise<string | undefined> {
  for (const directory of (process.env.PATH ?? '').split(delimiter).filter(Boolean)) {
    const path = join(directory, name);
    const executable = await access(path, constants.X_OK).then(
      () => true,
      () => false,
    );
    if (executable) return path;
  }
  return undefined;
}
