import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { homedir, tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { provideFolder } from '../stack/python-environment.ts';

const run = promisify(execFile);
const root = join(process.env.XDG_CACHE_HOME ?? join(homedir(), '.cache'), 'inference-service-tests');
/** For several hundred megabytes on a slow line. */
const installMs = 600_000;
const runMs = 120_000;

/** `command` is the program that the package installs. */
type Agent = { name: string; version: string; command: string };

export const codex: Agent = { name: '@openai/codex', version: '0.171.0', command: 'codex' };
export const claudeCode: Agent = { name: '@anthropic-ai/claude-code', version: '2.1.332', command: 'claude' };

/**
 * Returns the path of the agent's program, which npm installs once for each version into the user's cache. Throws if npm does not have the
 * package.
 */
export async function provideAgent({ name, version, command }: Agent): Promise<string> {
  const wanted = `${name}@${version}`;
  const folder = await provideFolder({ name: command, content: [wanted], root }, async (making) => {
    await mkdir(making, { recursive: true });
    // Installed packages run a script of their own, which fetches or moves the program.
    const flags = ['--no-audit', '--no-fund', '--no-save', '--loglevel=error', '--ignore-scripts=false'];
    await run('npm', ['install', '--prefix', making, ...flags, wanted], { timeout: installMs });
    const program = join(making, 'node_modules', '.bin', command);
    await run(program, ['--version'], { timeout: runMs });
  });
  return join(folder, 'node_modules', '.bin', command);
}

type Run = { program: string; args: readonly string[]; env: Readonly<Record<string, string>> };

/** A home folder of its own, with an empty working folder: nothing is configured. */
export async function openHome() {
  const home = await mkdtemp(join(tmpdir(), 'agent-'));
  const cwd = join(home, 'work');
  await mkdir(cwd);
  return {
    /** Runs the agent in it, with nothing of this process's environment but the path of programs. Resolves with what it has printed. */
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
