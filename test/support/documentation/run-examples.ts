import { execFile } from 'node:child_process';
import { mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { providePython } from '../../stack/python-environment.ts';
import type { Example } from './page-examples.ts';

type Runnable = Extract<Example, { role: 'run' }>;
/** The standard output of an example. `failed` says how it failed, if it did. */
export type Ran = { example: Example; output: string; failed?: string };

const execute = promisify(execFile);
const modules = fileURLToPath(new URL('../../../node_modules', import.meta.url));
const runMs = 90_000;
/** The official packages, by name. */
export const packages = { openai: '3.54.0', anthropic: '2.14.0' };
const names = Object.keys(packages);

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

/** The Python of an environment with the official packages. Throws if there is none and none can be created. */
export function provideExamplesPython(): Promise<string> {
  return providePython({ name: 'python', packages, modules: names });
}

/** Undefined if there is none; the reason is written to standard error. */
export async function findPython(): Promise<string | undefined> {
  return provideExamplesPython().catch((error: unknown) => {
    console.error('There is no Python with the packages of the examples:', error);
    return undefined;
  });
}
