import { setTimeout as sleep } from 'node:timers/promises';
import { Agent } from 'undici';
import type { Stack } from '../stack/stack.ts';
import { createFileClient, line } from '../support/file-client.ts';
import { type Asked, ask } from '../support/truth/ask.ts';
import type { Witnesses } from '../support/truth/open-witnesses.ts';
import type { Attack } from './attack.ts';

const clients = 8;
/** The pause between an answer and the next question: the attack is measured, not these callers. */
const pauseMs = 100;
const newClientEveryMs = 250;
const uploadEveryMs = 1_000;
/** A caller that waits longer has lost its answer. */
const patienceMs = 60_000;

/** One use of the service: its start and duration, in milliseconds. `refusal` if it was not served. */
type Use = { who: 'callers' | 'newClients' | 'uploads'; at: number; ms: number; refusal?: string };
export type Used = {
  uses: readonly Use[];
  asked: readonly Asked[];
};

type Deps = { stack: Stack; witnesses: Witnesses; others: Attack['others']; newClients: readonly string[] };

/** Several accounts that ask one question after another, whole and streamed, from 127.0.0.1, until they are stopped. */
export function startCallers({ stack, witnesses, others, newClients }: Deps) {
  const agent = new Agent({ headersTimeout: patienceMs, bodyTimeout: patienceMs });
  const uses: Use[] = [];
  const asked: Asked[] = [];
  let isOver = false;

  async function askOnce(who: Use['who'], key: string, stream: boolean): Promise<void> {
    const at = performance.now();
    const one = await ask({ ...witnesses.wish(`What is ${asked.length} of ${who}?`), key, stream }, agent);
    const ms = performance.now() - at;
    asked.push(one);
    uses.push({ who, at, ms, ...(one.ending === 'refused' && { refusal: `${who}: ${one.status} ${one.code}` }) });
  }

  async function call(client: number): Promise<void> {
    const key = witnesses.keys[client % witnesses.keys.length] ?? '';
    while (!isOver) {
      await askOnce('callers', key, client % 2 === 0);
      await sleep(pauseMs);
    }
  }

  async function askAsNewClient(): Promise<void> {
    for (const [index, key] of newClients.entries()) {
      if (isOver) return;
      await askOnce('newClients', key, index % 2 === 0);
      await sleep(newClientEveryMs);
    }
  }

  async function upload(): Promise<void> {
    const files = createFileClient(stack, witnesses.keys[0] ?? '');
    while (!isOver) {
      const at = performance.now();
      const problem = await files.upload(`${line('a')}\n`.repeat(100)).then(() => undefined, String);
      const ms = performance.now() - at;
      uses.push({ who: 'uploads', at, ms, ...(problem !== undefined && { refusal: `upload: ${problem}` }) });
      await sleep(uploadEveryMs);
    }
  }

  const running = [
    ...Array.from({ length: clients }, (_, client) => call(client)),
    ...(others === 'newClients' ? [askAsNewClient()] : []),
    ...(others === 'uploads' ? [upload()] : []),
  ];
  return {
    async stop(): Promise<Used> {
      isOver = true;
      await Promise.all(running);
      await agent.close();
      return { uses, asked };
    },
  };
}
