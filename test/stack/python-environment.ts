import { execFile } from 'node:child_process';
import { createHash, randomUUID } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, readdir, rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { installByApt } from './install-by-apt.ts';

const run = promisify(execFile);
const cache = fileURLToPath(new URL('../../node_modules/.cache', import.meta.url));
/** For the download of packages on a slow line. */
const withinMs = 600_000;
const lookMs = 120_000;
const lockPollMs = 200;
const sqliteBusy = 5;
const advice = 'install python3 and its venv (Debian: apt-get install python3 python3-venv)';

type Environment = {
  /** The name of its folder begins with it. */
  name: string;
  /** The versions of its packages, by name. */
  packages: Readonly<Record<string, string>>;
  /** What is imported to know that it is complete. */
  modules: readonly string[];
  /** Called before what takes long. */
  onStep?: (step: string) => void;
};

/**
 * The Python of an environment with these packages, kept with this project's packages and reused; created again if it is incomplete. If no
 * Python can create one and apt can be used, installs Debian's. Throws an error that says what is missing.
 */
export async function providePython({ name, packages, modules, onStep = () => {} }: Environment): Promise<string> {
  const requirements = Object.entries(packages).map(([name, version]) => `${name}==${version}`);
  const folder = join(cache, `${name}-${hashOf(...requirements)}`);
  const isComplete = () => canRun(pythonIn(folder), `import ${modules.join(', ')}`);
  if (await isComplete()) return pythonIn(folder);
  await makeOnce(folder, isComplete, async (making) => {
    if (!(await canRun('python3', 'import ensurepip, venv'))) {
      await installByApt({ what: 'Python', packages: ['python3', 'python3-venv'], advice });
    }
    onStep(`Installing the Python packages ${requirements.join(', ')} …`);
    try {
      await run('python3', ['-m', 'venv', making], { timeout: withinMs });
      await run(pythonIn(making), ['-m', 'pip', 'install', '--quiet', ...requirements], { timeout: withinMs });
    } catch (cause) {
      const { stderr = '' } = cause as { stderr?: string }; // of a program that failed
      const [why = 'see the cause'] = stderr.trim().split('\n').slice(-1);
      throw new Error(`${requirements.join(' and ')} could not be installed by pip: ${why}`, { cause });
    }
  });
  if (await isComplete()) return pythonIn(folder);
  throw new Error(`${requirements.join(' and ')} are installed, but cannot be imported.`);
}

/** `root` is the folder that it is in. Default: `node_modules/.cache`. */
type Folder = { name: string; content: readonly string[]; root?: string };

/** The path of a folder, whose name depends on `content`. `make` fills it once; a folder that was not finished is never used. */
export async function provideFolder(
  { name, content, root = cache }: Folder,
  make: (folder: string) => Promise<void>,
): Promise<string> {
  const folder = join(root, `${name}-${hashOf(...content)}`);
  const isMade = async () => existsSync(folder);
  if (!(await isMade())) await makeOnce(folder, isMade, make);
  return folder;
}

/**
 * Another process that makes it at the same time waits for this one. `bin/python` finds its packages by its own path, so it can be moved.
 */
async function makeOnce(
  folder: string,
  isMade: () => Promise<boolean>,
  make: (making: string) => Promise<void>,
): Promise<void> {
  const root = dirname(folder);
  await mkdir(root, { recursive: true });
  using _lock = await takeLock(`${folder}.lock`);
  if (await isMade()) return;
  const making = `${folder}.making.`;
  // Left by processes that were killed. What they had started may still write there.
  const left = (await readdir(root)).map((name) => join(root, name)).filter((path) => path.startsWith(making));
  for (const path of left) await rm(path, { recursive: true, force: true });
  const own = `${making}${randomUUID()}`;
  try {
    await make(own);
    await rm(folder, { recursive: true, force: true });
    await rename(own, folder);
  } finally {
    await rm(own, { recursive: true, force: true });
  }
}

/** The lock is one of the operating system, on an empty file: it ends with this process, in whichever way that ends. */
async function takeLock(file: string): Promise<Disposable> {
  for (const giveUpAt = Date.now() + withinMs; ; await sleep(lockPollMs)) {
    const lock = new DatabaseSync(file);
    try {
      lock.exec('PRAGMA journal_mode = MEMORY; BEGIN EXCLUSIVE');
      return { [Symbol.dispose]: () => lock.close() };
    } catch (error) {
      lock.close();
      if ((error as { errcode?: number }).errcode !== sqliteBusy || Date.now() > giveUpAt) throw error; // only SQLite's errors have one
    }
  }
}

function canRun(python: string, code: string): Promise<boolean> {
  return run(python, ['-c', code], { timeout: lookMs }).then(
    () => true,
    () => false,
  );
}

function pythonIn(folder: string): string {
  return join(folder, 'bin', 'python');
}

function hashOf(...parts: readonly string[]): string {
  return createHash('sha256').update(parts.join('\0')).digest('hex').slice(0, 16);
}
