import { setTimeout as sleep } from 'node:timers/promises';
import type { Fault, ModelServer } from '../../stack/model-server.ts';
import type { Random } from '../random.ts';

const faults: readonly Fault[] = [
  { status: 500, times: 3 },
  { status: 429, times: 2 },
  { status: 400, errorMessage: 'the messages are too long', times: 1 },
  { resetBeforeHeaders: true, times: 2 },
  { garbage: 'json', times: 1 },
  { cutAfterChunks: 10, times: 2 },
  { endAfterChunks: 5, times: 2 },
  { stallAfterChunks: 8, times: 1 },
  { badEvents: true, times: 1 },
  { noUsage: true, times: 6 },
  { noDone: true, times: 3 },
  { latencyMs: 1_500, times: 4 },
  { chunkMs: 50, times: 4 },
];

const pauseMs = { from: 20, to: 120 };

/** Makes model servers fail in every way for a few calls each, until it is disposed of; mostly the first, which is called first. */
export function misbehaveAtRandom(servers: readonly [ModelServer, ...ModelServer[]], random: Random): AsyncDisposable {
  const ending = new AbortController();

  async function misbehave(): Promise<void> {
    while (!ending.signal.aborted) {
      const server = random() < 0.6 ? servers[0] : random.oneOf(servers);
      server.fail(random.oneOf(faults));
      const pause = random.between(pauseMs.from, pauseMs.to);
      await sleep(pause, undefined, { signal: ending.signal }).catch(() => undefined);
    }
    for (const server of servers) server.heal();
  }

  const misbehaving = misbehave();
  return {
    async [Symbol.asyncDispose]() {
      ending.abort();
      await misbehaving;
    },
  };
}
