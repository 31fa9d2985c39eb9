import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';

export type TreeProcess = { pid: number; command: string };

/** Every process that this one started, directly or indirectly, as far as their parents still run. */
export function descendantsOf(pid: number): TreeProcess[] {
  const all = execFileSync('ps', ['-A', '-o', 'pid=,ppid=,args='], { encoding: 'utf8' })
    .split('\n')
    .flatMap((line) => {
      const [, own, parent, command = ''] = /^\s*(\d+)\s+(\d+)\s+(.*)$/.exec(line) ?? [];
      return own === undefined ? [] : [{ pid: Number(own), parent: Number(parent), command }];
    });
  const found: TreeProcess[] = [];
  for (let level = [pid]; level.length > 0; ) {
    const children = all.filter(({ parent }) => level.includes(parent));
    found.push(...children.map((child) => ({ pid: child.pid, command: child.command })));
    level = children.map((child) => child.pid);
  }
  return found;
}

/** The processes that still run after `withinMs`. Returns as soon as there are none. */
export async function stillRunning(processes: readonly TreeProcess[], withinMs: number): Promise<TreeProcess[]> {
  const giveUpAt = Date.now() + withinMs;
  for (;;) {
    const left = processes.filter(({ pid }) => isRunning(pid));
    if (left.length === 0 || Date.now() > giveUpAt) return left;
    await sleep(50);
  }
}

/** False for one that has ended and whose parent, which may be the init process, does not know yet. */
function isRunning(pid: number): boolean {
  try {
    if (process.platform === 'linux') return readFileSync(`/proc/${pid}/cmdline`, 'utf8') !== '';
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}
