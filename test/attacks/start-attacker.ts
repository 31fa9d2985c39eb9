import { fork } from 'node:child_process';
import { once } from 'node:events';
import { setPriority } from 'node:os';
import { fileURLToPath } from 'node:url';
import { z } from 'zod';
import type { Tally, Target } from './attack.ts';

const main = fileURLToPath(new URL('./attacker/main.ts', import.meta.url));
const tallySchema = z.record(z.string(), z.int());
/** A real attacker has its own processors. Here it shares them with the service, so it runs with the lowest priority. */
const niceness = 19;

/** Starts the process of the attack. `stop` resolves when it has ended with its connections. */
export async function startAttacker(id: string) {
  const child = fork(main, [id], { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] });
  const ended = once(child, 'exit');
  await once(child, 'message'); // it is ready
  const pid = child.pid ?? 0; // a child that sent a message has one
  setPriority(pid, niceness);

  async function report(message: 'tally' | 'stop'): Promise<Tally> {
    if (child.exitCode !== null) throw new Error(`the attacker ended with ${child.exitCode}`);
    const reported = once(child, 'message');
    child.send(message);
    const [tally] = await reported;
    return tallySchema.parse(tally);
  }

  return {
    pid,
    begin: (target: Target) => void child.send(target),
    tally: () => report('tally'),
    async stop(): Promise<Tally> {
      const tally = await report('stop');
      await ended;
      return tally;
    },
    async [Symbol.asyncDispose]() {
      child.kill('SIGKILL');
      await ended;
    },
  };
}
