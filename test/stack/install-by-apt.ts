import { execFile } from 'node:child_process';
import { access, constants, mkdir, readdir, rm, writeFile } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);

/** Enough for `apt-get update` on a slow line, or for another apt that is still running. */
const aptWithinMs = 300_000;

type Wanted = { what: string; packages: string[]; advice: string };
/** An update of apt's lists does not wait for another one. */
let installing: Promise<void> = Promise.resolve();

/**
 * Installs programs by apt, from packages that start no service, after those of earlier calls. Throws if apt cannot be used; `advice` then
 * says how to get them.
 */
export function installByApt(wanted: Wanted): Promise<void> {
  installing = installing.catch(() => {}).then(() => install(wanted));
  return installing;
}

async function install({ what, packages, advice }: Wanted): Promise<void> {
  const asRoot = (await findProgram('apt-get')) === undefined ? undefined : await rootPrefix();
  if (asRoot === undefined) throw new Error(`${what} is missing: ${advice}.`);
  console.error(`${what} is missing; installing ${packages.join(' ')} by apt (programs only, no system service) …`);
  const aptGet = (...args: string[]) => {
    const [command = 'apt-get', ...rest] = [...asRoot, 'env', 'DEBIAN_FRONTEND=noninteractive', 'apt-get', ...args];
    return run(command, rest, { timeout: aptWithinMs });
  };
  const installAll = () =>
    aptGet('install', '-y', '--no-install-recommends', '-o', 'DPkg::Lock::Timeout=120', ...packages);
  try {
    await installAll().catch(async () => {
      await aptGet('update', '-q'); // the usual reason: missing or old package lists
      await installAll();
    });
  } catch (cause) {
    throw new Error(`${what} is missing, and apt could not install it: ${advice}.`, { cause });
  }
}

/**
 * Unpacks Debian packages into this folder. They are not installed: an installed one could start a service. `suite`: another one than that
 * of this system, such as `bookworm-backports`, whose list is kept in the folder.
 */
export async function unpackByApt(packages: readonly string[], folder: string, suite?: string): Promise<void> {
  await mkdir(folder, { recursive: true });
  const options = suite === undefined ? [] : await optionsFor(suite, join(folder, 'apt'));
  const apt = (...args: string[]) => run('apt-get', [...options, ...args], { cwd: folder, timeout: aptWithinMs });
  await apt('download', ...packages).catch(async () => {
    await apt('update', '-q'); // the usual reason: missing or old package lists
    await apt('download', ...packages);
  });
  const archives = (await readdir(folder)).filter((name) => name.endsWith('.deb'));
  for (const archive of archives) await run('dpkg-deb', ['--extract', archive, '.'], { cwd: folder });
  for (const file of [...archives, 'apt']) await rm(join(folder, file), { recursive: true, force: true });
}

/** Options of apt that make it read the list of this suite only, and keep it in a folder. */
async function optionsFor(suite: string, folder: string): Promise<string[]> {
  await mkdir(join(folder, 'lists/partial'), { recursive: true });
  const list = join(folder, 'sources.list');
  const key = '/usr/share/keyrings/debian-archive-keyring.gpg';
  await writeFile(list, `deb [signed-by=${key}] http://deb.debian.org/debian ${suite} main\n`);
  const places = ['Dir::Etc::sourceparts=-', `Dir::State::lists=${folder}/lists`, `Dir::Cache=${folder}`];
  return [`Dir::Etc::sourcelist=${list}`, ...places].flatMap((each) => ['-o', each]);
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
