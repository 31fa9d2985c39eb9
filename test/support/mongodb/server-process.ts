import { type ChildProcess, spawn } from 'node:child_process';

const stopMsMax = 5_000;
const outputCharsMax = 4_000;

/** A child process that ends with its standard input, so that it never outlives the test, however the test ends. */
export type ServerProcess = {
  /** The first line of output that matches. Fails with the output if the process ends or `ms` pass before that. */
  said(pattern: RegExp, ms: number): Promise<RegExpExecArray>;
  stop(): Promise<void>;
};

export function spawnServer(command: string, args: readonly string[]): ServerProcess {
  const child = spawn(command, args, { stdio: ['pipe', 'pipe', 'pipe'] });
  let output = '';
  const heed = (bytes: Buffer) => {
    output = (output + bytes).slice(-outputCharsMax);
    child.emit('output');
  };
  child.stdout.on('data', heed);
  child.stderr.on('data', heed);
  child.stdin.on('error', () => {}); // it ended on its own: the wait for its exit reports that
  const ended = new Promise<void>((resolve) => {
    child.once('exit', () => resolve());
    child.once('error', (error) => {
      output += error.message;
      resolve();
    });
  });

  return {
    async said(pattern, ms) {
      const match = Promise.withResolvers<RegExpExecArray | undefined>();
      const look = () => {
        const found = pattern.exec(output);
        if (found !== null) match.resolve(found);
      };
      child.on('output', look);
      look();
      ended.then(() => match.resolve(undefined));
      const timer = setTimeout(() => match.resolve(undefined), ms);
      const found = await match.promise;
      clearTimeout(timer);
      child.off('output', look);
      if (found === undefined) throw new Error(`${command} did not start: ${output}`);
      return found;
    },
    stop: () => stop(child, ended),
  };
}

async function stop(child: ChildProcess, ended: Promise<void>): Promise<void> {
  child.stdin?.end();
  const timer = setTimeout(() => child.kill('SIGKILL'), stopMsMax);
  await ended;
  clearTimeout(timer);
}
