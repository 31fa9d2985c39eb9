import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { z } from 'zod';
import { freePort } from '../../stack/free-port.ts';
import type { Gateway } from './gateway.ts';
import { startProcess } from './start-process.ts';

/** What a gateway needs to start: a folder of the run for its files, and the one model server to call. */
export type Place = { directory: string; modelServer: ModelServer };
export type ModelServer = Awaited<ReturnType<typeof startModelServer>>;

/** One call as received by the model server. `at` in Unix milliseconds, `tokens` of the prompt and of the sent answer. */
export type Call = { id: string; at: number; tokens: number };

const callList = z.object({ calls: z.array(z.tuple([z.string(), z.number(), z.number()])) });

export async function startModelServer(directory: string) {
  const port = await freePort();
  const started = await startNode('model-server', [String(port)], { directory, port, readyPath: '/' });
  const url = `http://127.0.0.1:${port}`;
  return {
    ...started,
    url,
    async calls(): Promise<Call[]> {
      const { calls } = callList.parse(await (await fetch(`${url}/calls`)).json());
      return calls.map(([id, at, tokens]) => ({ id, at, tokens }));
    },
    /** Returns how many there were. */
    async forgetCalls(): Promise<number> {
      const { calls } = callList.parse(await (await fetch(`${url}/calls`, { method: 'DELETE' })).json());
      return calls.length;
    },
    [Symbol.asyncDispose]: () => started[Symbol.asyncDispose](),
  };
}

/** The model server itself. */
export async function bareBackend({ modelServer: { url } }: Place): Promise<Gateway> {
  return { urls: [url], headers: {}, processes: async () => ({}), [Symbol.asyncDispose]: async () => {} };
}

export async function bareProxy({ directory, modelServer }: Place): Promise<Gateway> {
  const port = await freePort();
  const args = [String(port), modelServer.url];
  const started = await startNode('bare-proxy', args, { directory, port, readyPath: '/v1/models' });
  return {
    urls: [`http://127.0.0.1:${port}`],
    headers: {},
    processes: async () => ({ proxy: [started.pid] }),
    [Symbol.asyncDispose]: () => started[Symbol.asyncDispose](),
  };
}

type Where = { directory: string; port: number; readyPath: string };

function startNode(name: string, args: readonly string[], { directory, port, readyPath }: Where) {
  return startProcess({
    command: process.execPath,
    args: [fileURLToPath(new URL(`./${name}.ts`, import.meta.url)), ...args],
    logFile: join(directory, `${name}.log`),
    readyUrl: `http://127.0.0.1:${port}${readyPath}`,
  });
}
