import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';

/** Enough for Redis to write and close its file. */
const endWithinMs = 30_000;

/**
 * Waits until a process of an earlier start has ended. `command` is a part of its command line: its id may belong to another process now.
 */
export async function untilEnded(
  { pid, command }: { pid: number; command: string },
  withinMs = endWithinMs,
): Promise<void> {
  const giveUpAt = Date.now() + withinMs;
  while ((await commandOf(pid)).includes(command)) {
    if (Date.now() >= giveUpAt) {
      throw new Error(
        `Process ${pid} (${command}) of an earlier start still runs. End it (kill -9 ${pid}), and try again.`,
      );
    }
    await sleep(100);
  }
}

/** Empty if there is no such process, or if it has ended and its parent does not know yet. */
async function commandOf(pid: number): Promise<string> {
  try {
    if (process.platform === 'linux') return await readFile(`/proc/${pid}/cmdline`, 'utf8');
    return (await promisify(execFile)('ps', ['-o', 'args=', '-p', String(pid)])).stdout;
  } catch {
    return ''; // both fail if there is none
  }
}
