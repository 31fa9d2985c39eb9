import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import type { AskedRequest, Wish } from '../support/truth/ask.ts';
import type { Witnesses } from '../support/truth/open-witnesses.ts';
import type { Attack } from './attack.ts';

/** One use of the service: its start, in milliseconds of Unix time, and its duration in milliseconds. `refusal` if it was not served. */
export type Use = { who: 'callers' | 'newClients' | 'uploads'; at: number; ms: number; refusal?: string };
export type CallersReport = {
  uses: readonly Use[];
  asked: readonly AskedRequest[];
};

/** What the thread of the callers knows. `newClients` has a key of each account that the service has not seen before. */
export type CallerOptions = {
  wish: Wish;
  keys: readonly string[];
  others: Attack['others'];
  newClients: readonly string[];
};

const thread = new URL('legitimate-callers.ts', import.meta.url);

/**
 * Starts the legitimate callers, in a thread of their own: the simulated model servers are in this one, and their work must not be part of
 * how long a caller waits.
 */
export function startCallers({
  witnesses,
  ...others
}: { witnesses: Witnesses } & Omit<CallerOptions, 'wish' | 'keys'>) {
  const workerData: CallerOptions = { ...others, wish: witnesses.wish(''), keys: witnesses.keys };
  const worker = new Worker(thread, { workerData });
  const ended = Promise.race([
    once(worker, 'message'),
    once(worker, 'exit').then(() => Promise.reject(new Error('the callers ended early'))),
  ]);
  ended.catch(() => {}); // it is awaited at the end
  return {
    async stop(): Promise<CallersReport> {
      worker.postMessage('stop');
      const [used] = await ended;
      return used;
    },
    [Symbol.asyncDispose]: async () => void (await worker.terminate()),
  };
}
