import { setTimeout as sleep } from 'node:timers/promises';
import { parentPort, workerData } from 'node:worker_threads';
import { Agent } from 'undici';
import { createFileClient, line } from '../support/file-client.ts';
import { type AskedRequest, ask } from '../support/truth/ask.ts';
import type { CallerOptions, CallersReport, Use } from './start-callers.ts';

/** The thread of several accounts that ask one question after another, whole and streamed, from 127.0.0.1, until any message arrives. */

const clients = 8;
/** The pause between an answer and the next question: the attack is measured, not these callers. */
const pauseMs = 100;
const newClientEveryMs = 250;
const uploadEveryMs = 1_000;
/** A caller that waits longer has lost its answer. */
const patienceMs = 60_000;

const { wish, keys, others, newClients } = workerData as CallerOptions; // from the only module that starts this thread
const agent = new Agent({ headersTimeout: patienceMs, bodyTimeout: patienceMs });
const uses: Use[] = [];
const asked: AskedRequest[] = [];
let isOver = false;

/** The same clock in all threads. */
const now = () => performance.timeOrigin + performance.now();

async function askOnce(who: Use['who'], key: string, stream: boolean): Promise<void> {
  const at = now();
  const one = await ask({ ...wish, question: `What is ${asked.length} of ${who}?`, key, stream }, agent);
  const ms = now() - at;
  asked.push(one);
  uses.push({ who, at, ms, ...(one.ending === 'refused' && { refusal: `${who}: ${one.status} ${one.code}` }) });
}

async function call(client: number): Promise<void> {
  const key = keys[client % keys.length] ?? '';
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
  const files = createFileClient({ ingresses: [wish] }, keys[0] ?? '');
  while (!isOver) {
    const at = now();
    const problem = await files.upload(`${line('a')}\n`.repeat(100)).then(() => undefined, String);
    const ms = now() - at;
    uses.push({ who: 'uploads', at, ms, ...(problem !== undefined && { refusal: `upload: ${problem}` }) });
    await sleep(uploadEveryMs);
  }
}

parentPort?.once('message', () => {
  isOver = true;
});
await Promise.all([
  ...Array.from({ length: clients }, (_, client) => call(client)),
  ...(others === 'newClients' ? [askAsNewClient()] : []),
  ...(others === 'uploads' ? [upload()] : []),
]);
await agent.close();
parentPort?.postMessage({ uses, asked } satisfies CallersReport);
