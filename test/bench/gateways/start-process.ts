import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { openSync, readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { processTree } from '../processes.ts';

const stopMsMax = 20_000;
const lookEveryMs = 100;

/** No process of the bench outlives it for long: when asked to end, each also ends the processes that it has started. */
const running = new Set<ChildProcess>();
process.once('exit', () => {
  for (const child of running) child.kill('SIGTERM');
});

type Wanted = {
  command: string;
  args: readonly string[];
  env?: Record<string, string>;
  cwd?: string;
  /** The file for its output: a pipe would have to be read by the processors that are measured. */
  logFile: string;
  /** Answers 200 when it is ready. */
  readyUrl: string;
  withinMs?: number;
};

export type StartedProcess = AsyncDisposable & {
  pid: number;
  /** Kills it and all processes that it has started, at once. */
  kill(): Promise<void>;
};

/** Resolves when it answers. Otherwise fails with the end of its log. It gets only the named variables. */
export async function startProcess(wanted: Wanted): Promise<StartedProcess> {
  const { command, args, env = {}, cwd, logFile, readyUrl, withinMs = 30_000 } = wanted;
  const log = openSync(logFile, 'a');
  const child = spawn(command, args, {
    ...(cwd !== undefined && { cwd }),
    env: { PATH: process.env.PATH ?? '', HOME: process.env.HOME ?? '', ...env },
    stdio: ['ignore', log, log],
  });
  running.add(child);
  let failure: string | undefined;
  child.once('error', (error) => {
    failure = error.message;
  });
  const ended = Promise.race([once(child, 'exit'), once(child, 'error')]).then(() => {
    failure ??= 'it has ended';
    running.delete(child);
  });
  const kill = async () => {
    for (const pid of await processTree(child.pid ?? 0)) signal(pid, 'SIGKILL');
    await ended;
  };
  const stop = async () => {
    if (failure !== undefined) return;
    const tree = await processTree(child.pid ?? 0);
    child.kill('SIGTERM');
    await Promise.race([ended, sleep(stopMsMax, undefined, { ref: false })]);
    for (const pid of tree) signal(pid, 'SIGKILL');
    await ended;
  };
  const giveUpAt = performance.now() + withinMs;
  while (!(await answers(readyUrl))) {
    if (failure === undefined && performance.now() < giveUpAt) await sleep(lookEveryMs);
    else {
      const why = failure ?? `it did not answer within ${withinMs / 1_000} s`;
      await stop();
      throw new Error(`${command} ${args[0]}: ${why}: ${lastOf(logFile)}`);
    }
  }
  return { pid: child.pid ?? 0, kill, [Symbol.asyncDispose]: stop };
}

async function answers(url: string): Promise<boolean> {
  try {
    const response = await fetch(url, { signal: AbortSignal.timeout(2_000) });
    await response.arrayBuffer();
    return response.ok;
  } catch {
    return false;
  }
}

function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name);
  } catch {
    // it has already ended
  }
}

function lastOf(logFile: string): string {
  return readFileSync(logFile, 'utf8').trimEnd().split('\n').slice(-3).join(' ').slice(-500);
}
