import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import type { Example } from './page-examples.ts';

type Runnable = Extract<Example, { role: 'run' }>;
/** The standard output of an example. `failed` says how it failed, if it did. */
export type Ran = { example: Example; output: string; failed?: string };

const execute = promisify(execFile);
const modules = fileURLToPath(new URL('../../../node_modules', import.meta.url));
const runMs = 90_000;
const importMs = 120_000;
/** For creating the environment and checking that it is complete. */
const environmentMs = 600_000;
/** The official packages, by name. */
const packages = { openai: '3.54.0', anthropic: '2.14.0' };
const names = Object.keys(packages);
const requirements = Object.entries(packages).map(([name, version]) => `${name}==${version}`);
const environment = join(modules, '.cache', ['python', ...requirements].join('-').replaceAll('==', '-'));

/** A temporary folder for the examples of one page, in which Node finds this project's packages. */
export async function openExampleFolder(): Promise<AsyncDisposable & { path: string }> {
  const path = await mkdtemp(join(tmpdir(), 'inference-examples-'));
  await symlink(modules, join(path, 'node_modules'));
  return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }) };
}

type Place = { folder: string; env: Record<string, string> };

/** Runs all shell examples of a page in one shell, one after another, as a reader types them. */
export async function runShell(examples: readonly Runnable[], { folder, env }: Place): Promise<Ran[]> {
  const mark = '-- the next example --';
  const script = examples.map(({ text }) => text).join(`\nprintf '%s' '${mark}'\n`);
  const { output, failed } = await run('bash', ['-e', '-o', 'pipefail', '-c', script], { folder, env });
  const outputs = output.split(mark);
  return examples.map((example, index) => ({
    example,
    output: outputs[index] ?? '',
    ...(failed !== undefined && index >= outputs.length - 1 && { failed }),
  }));
}

export async function runScript(example: Runnable, { folder, env }: Place, command: string): Promise<Ran> {
  const file = join(folder, `example.${example.language === 'ts' ? 'ts' : 'py'}`);
  await writeFile(file, example.text);
  return { example, ...(await run(command, [file], { folder, env })) };
}

async function run(command: string, args: readonly string[], { folder, env }: Place) {
  const path = `${dirname(process.execPath)}:${process.env.PATH ?? ''}`;
  try {
    const options = { cwd: folder, env: { PATH: path, HOME: folder, ...env }, timeout: runMs };
    const { stdout } = await execute(command, [...args], options);
    return { output: stdout };
  } catch (error) {
    const { message, stdout = '' } = error as Error & { stdout?: string }; // the error of execFile
    return { output: stdout, failed: message };
  }
}

/** Why examples in Python are skipped. */
export const noPython = `there is no Python with the packages ${names.join(' and ')}, and none could be created`;

/**
 * The Python of an environment with the official packages, kept with this project's packages and reused; created again if it is incomplete.
 * Undefined without Python, or if they cannot be installed within ten minutes; the reason is written to standard error.
 */
export async function findPython(): Promise<string | undefined> {
  const signal = AbortSignal.timeout(environmentMs);
  if (await hasPackages(environment, signal)) return pythonIn(environment);
  const making = `${environment}-${randomUUID()}`;
  try {
    await makeEnvironment(making, signal);
    // Another process may have created it meanwhile, and be using it.
    if (await hasPackages(environment, signal)) return pythonIn(environment);
    await rm(environment, { recursive: true, force: true });
    // `bin/python` finds its packages relative to its own path, so a complete environment can be moved to its place.
    await rename(making, environment);
    return pythonIn(environment);
  } catch (error) {
    if (await hasPackages(environment, AbortSignal.timeout(importMs))) return pythonIn(environment);
    console.error('There is no Python with the packages of the examples:', error);
    return undefined;
  } finally {
    await rm(making, { recursive: true, force: true });
  }
}

async function makeEnvironment(folder: string, signal: AbortSignal): Promise<void> {
  await mkdir(dirname(folder), { recursive: true });
  await execute('python3', ['-m', 'venv', folder], { signal });
  await execute(pythonIn(folder), ['-m', 'pip', 'install', '--quiet', ...requirements], { signal });
  if (!(await hasPackages(folder, signal))) throw new Error('they were installed, but cannot be imported');
}

async function hasPackages(folder: string, signal: AbortSignal): Promise<boolean> {
  if (!existsSync(pythonIn(folder))) return false;
  return execute(pythonIn(folder), ['-c', `import ${names.join(', ')}`], { signal }).then(
    () => true,
    () => false,
  );
}

function pythonIn(folder: string): string {
  return join(folder, 'bin', 'python');
}
