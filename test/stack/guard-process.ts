import { type ChildProcess, spawn } from 'node:child_process';

/**
 * Ends a child with this process, in whichever way this one dies: a guard holds a pipe from this process and nothing else, and runs these
 * commands when the pipe breaks. `$1` is the child's process id.
 */
export function guardProcess(child: ChildProcess, commands: string): void {
  const guard = spawn('/bin/sh', ['-c', `read -r _; ${commands}`, 'sh', String(child.pid)], {
    detached: true, // Ctrl-C does not reach it
    stdio: ['pipe', 'ignore', 'ignore'],
  });
  guard.unref();
  const end = () => guard.kill('SIGKILL'); // the process id may soon belong to another process
  child.once('exit', end);
  child.once('error', end);
}
