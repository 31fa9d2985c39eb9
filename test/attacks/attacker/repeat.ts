import { setTimeout as sleep } from 'node:timers/promises';
import type { Attacker } from '../attack.ts';

type Repeat = {
  clients: number;
  /** The maximum of all clients together. */
  perSecond: number;
};

/** This many clients repeat the step until the attack is over. Errors of a step are counted. */
export async function repeat(
  { signal, count }: Attacker,
  { clients, perSecond }: Repeat,
  step: (client: number, index: number) => Promise<unknown>,
): Promise<void> {
  let next = performance.now();
  let index = 0;

  /** A client that falls behind does not catch up. */
  async function turn(): Promise<void> {
    const at = Math.max(next, performance.now());
    next = at + 1_000 / perSecond;
    await sleep(Math.max(0, at - performance.now()), undefined, { signal });
  }

  async function run(client: number): Promise<void> {
    while (!signal.aborted) {
      try {
        await turn();
        await step(client, index++);
      } catch (error) {
        if (!signal.aborted) count(reasonOf(error));
      }
    }
  }

  await Promise.all(Array.from({ length: clients }, (_, client) => run(client)));
}

/** A short text without variable parts. */
function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return typeof error;
  const { code = error.message } = error as { code?: string }; // of a system's error
  return code.startsWith('the connection ended after') ? 'closed without an answer' : code.slice(0, 60);
}
