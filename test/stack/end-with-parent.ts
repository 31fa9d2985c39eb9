import { isMainThread } from 'node:worker_threads';

// Loaded by `--import` into the processes of a stack, and into each of their threads. Their standard input is a pipe from the process that
// started them, which breaks when that process ends, also if it is killed. They are killed then, as they may be at any time: their ports
// are free at once.
if (isMainThread) {
  process.stdin.on('close', () => {
    // A process that Node watches has a group of its own, together with the process that watches it.
    process.kill(process.env.WATCH_REPORT_DEPENDENCIES === undefined ? process.pid : 0, 'SIGKILL');
  });
  process.stdin.on('error', () => {}); // `close` follows
  process.stdin.resume();
  process.stdin.unref();
}
